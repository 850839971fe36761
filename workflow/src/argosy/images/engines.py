"""Chooses udocker's execution mode by trying, since what works differs from node to node."""

from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images import container
from argosy.images.container import Container
from argosy.images.store import Store

MODES = ("R1", "P2", "P1")
"""R1: runc in a user namespace, native speed. P2, P1: proot, for hosts without user namespaces."""

_PROBE = "printf 'argosy-\\303\\251'; exit 3"


def choose_mode(store: Store, root: Path) -> str:
    """The first mode in which a command in `root` gives its own exit status and its UTF-8 output.

    Raises:
        ArgosyError: when none does, with what each said and what to ask the site for.
    """
    said: list[str] = []
    for mode in MODES:
        output: list[bytes] = []
        probe = Container(root, ["/bin/sh", "-c", _PROBE], mode=mode)
        outcome = container.run(store, probe, output.append)
        text = b"".join(output).decode(errors="replace")
        if outcome.status == 3 and text.endswith("argosy-é"):
            return mode
        said.append(f"{mode}: {' '.join(text.split())[-160:] or 'no output'}")
    raise ArgosyError(
        f"no execution mode of udocker works on this host ({'; '.join(said)}); ask the site to allow "
        "user namespaces (user.max_user_namespaces above 0) or to let udocker fetch its tools"
    )
