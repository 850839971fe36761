"""Start of a rank: its environment, its folder and its process."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Iterator, Mapping, Sequence

from ...contract import layout
from ...contract.files import UMASK
from ..settings import MeetingPoint, Settings, rank_environment

_RUNTIME = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
_PYTHON_FOLDER = os.path.join(_RUNTIME, "python")


_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
_NO_PROXY = ("no_proxy", "NO_PROXY")


class StartError(Exception):
    """The command cannot be started; the text is the cause."""


def environment_of(settings: Settings, local_rank: int, meeting: MeetingPoint) -> dict[str, str]:
    rank = settings.node * settings.ranks_per_node + local_rank
    # The token and the agents' other variables stay with the agents.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ARGOSY_")}
    # Buffered lines would be lost if the rank is killed.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.update(rank_environment(settings, local_rank, meeting))
    environment.update(_without_proxy(environment, settings, meeting))
    # The experiment's PYTHONPATH must not replace the recorder's folder.
    folders = [_PYTHON_FOLDER, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    environment.update(
        ARGOSY_RUN_DIR=settings.run_dir,
        ARGOSY_ATTEMPT=settings.attempt,
        ARGOSY_NODE=str(settings.node),
        ARGOSY_NODE_ADDRESS=settings.address,
        ARGOSY_RANK=str(rank),
        ARGOSY_LOCAL_RANK=str(local_rank),
        ARGOSY_STEPS_FILE=settings.record(layout.rank_steps(rank)),
        ARGOSY_OUTPUT=settings.output,
        ARGOSY_UMASK=f"{UMASK:03o}",
        ARGOSY_CHECKPOINTS=os.path.join(settings.checkpoints, settings.attempt),
    )
    if settings.run.warning_s is not None:
        environment["ARGOSY_WARNED"] = f"{settings.run.warning_s:g}"
    if settings.resume:
        environment["ARGOSY_RESTORED"] = os.path.join(settings.checkpoints, settings.resume)
    return environment


def _without_proxy(
    environment: Mapping[str, str], settings: Settings, meeting: MeetingPoint
) -> dict[str, str]:
    """Return variables that keep connections between nodes from a proxy; none without a proxy.

    gRPC (JAX, TensorFlow, Flower) and HTTP clients would ask the proxy for the other nodes.
    """
    if not any(name.lower() in _PROXIES for name in environment):
        return {}
    given = (environment.get(name, "") for name in _NO_PROXY)
    nodes = (settings.head_address, settings.address, *(each.address for each in meeting.nodes))
    names = dict.fromkeys(each.strip() for each in ",".join([*given, *nodes]).split(","))
    return dict.fromkeys(_NO_PROXY, ",".join(filter(None, names)))


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: str | None,
    in_container: bool,
    *,
    output: int = subprocess.PIPE,
    inherited: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command in its own session, in `folder`, with `inherited` descriptors. Raises StartError."""
    name = command[0]
    where = "in the image" if in_container else "on this node"
    try:
        return subprocess.Popen(
            list(command),
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=inherited,
        )
    except FileNotFoundError:
        if shutil.which(name, path=environment.get("PATH")):
            raise StartError(f"command {name}: its interpreter is not {where}{_unrun()}") from None
        raise StartError(f"command not found {where}: {name}{_unrun()}") from None
    except PermissionError:
        raise StartError(f"command not executable {where}: {name}") from None
    except (OSError, ValueError) as error:
        raise StartError(f"command {name} cannot be started: {error}") from None


def _unrun() -> str:
    """Return a hint if the image has an ENTRYPOINT, which may set PATH."""
    entrypoint = os.environ.get("ARGOSY_ENTRYPOINT")
    return (
        f"; its ENTRYPOINT is not run: put it before the command ({entrypoint})"
        if entrypoint
        else ""
    )


def workdir(settings: Settings) -> str | None:
    """Return a rank's working directory; None: the agent's.

    Native runs start in the run's `output` if the experiment names outputs. Containers do so unless the
    image's WORKDIR is writable, or holds a file that the command names by a relative path.
    """
    if not settings.in_container:
        return None if settings.run.outputs is None else settings.output
    here = os.getcwd()
    if here != "/" and (os.access(here, os.W_OK) or _is_named(settings.run.command, here)):
        return None
    return settings.output if os.path.isdir(settings.output) else None


def _is_named(command: Sequence[str], folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, path)) for path in _relative_paths(command))


def _relative_paths(command: Sequence[str]) -> Iterator[str]:
    """Yield possible relative paths in a command, also in the text of `bash -c`."""
    before = ""
    for word in " ".join(command).split():
        if before == "-m":
            module = word.replace(".", "/")
            yield from (module, f"{module}.py")
        elif not word.startswith(("/", "-")):
            yield word
        before = word
