"""Chooses the engine of containers by trying, since what works differs from node to node."""

from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images import container
from argosy.images.container import ENGINES, Container
from argosy.images.store import Store

_PROBE = "printf 'argosy-\\303\\251'; exit 3"


def choose_engine(store: Store, root: Path) -> str:
    """The first engine by which a command in `root` gives its own exit status and its UTF-8 output.

    Raises:
        ArgosyError: when none does, with what each said and what to ask the site for.
    """
    said: list[str] = []
    for engine in ENGINES:
        output: list[bytes] = []
        probe = Container(root, ["/bin/sh", "-c", _PROBE], engine=engine)
        outcome = container.run(store, probe, output.append)
        text = b"".join(output).decode(errors="replace")
        if outcome.status == 3 and text.endswith("argosy-é"):
            return engine
        said.append(f"{engine}: {' '.join(text.split())[-160:] or 'no output'}")
    raise ArgosyError(
        f"no engine for containers works on this host ({'; '.join(said)}); ask the site to allow "
        "user namespaces (user.max_user_namespaces above 0) or to let udocker fetch its tools"
    )
