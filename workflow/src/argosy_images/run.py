"""Run a command in a frozen image: `python -m argosy_images.run --digest sha256:… -- COMMAND`.

Batch scripts start it on each node. The container gets all variables that begin with ARGOSY_, and the
variables that select the job's GPUs, in addition to the image's own.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from argosy_common.errors import ArgosyError, explained, is_of_the_surroundings, plain
from argosy_images.engines import container
from argosy_images.engines.choice import (
    caution,
    choose_engine,
    engine_of_host,
    one_starts,
)
from argosy_images.engines.models import (
    DEFAULT_ENVIRONMENT,
    ENGINES,
    GUEST_DIR,
    Bind,
    Container,
    Outcome,
)
from argosy_images.engines.nvidia import NVML_VARIABLE, driver_mount, nvml_module, with_driver
from argosy_images.store.store import Store

if TYPE_CHECKING:
    from argosy_images.staging.stage import Place

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")

ENGINE_VARIABLE = "ARGOSY_ENGINE"
"""Names the container's engine, for the agent's record."""

USER_IDS_VARIABLE = "ARGOSY_USER_IDS"
"""User and group that the agent and its ranks take, instead of root."""

ENTRYPOINT_VARIABLE = "ARGOSY_ENTRYPOINT"
"""Names the image's ENTRYPOINT, which is not run, for the agent's message about a missing command."""

TOKEN_VARIABLE = "ARGOSY_TOKEN"
TOKEN_FILE_VARIABLE = "ARGOSY_TOKEN_FILE"
TOKEN_FILE = "token"
"""Name of the file with the token; the agent reads and deletes it first."""

LONGEST_ENTRYPOINT = 200
"""Characters of the ENTRYPOINT that a message quotes."""

KILLED = 137
"""Exit status of a command that was killed without reporting its own status, as in a shell."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    log = options.log_dir / f"node-{os.environ.get('ARGOSY_NODE', '0')}.log"
    # O_NOFOLLOW: an earlier program of the run may have placed a link there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(log, flags, 0o666), "ab", buffering=0) as stream:
        try:
            return run_image(
                options.digest,
                options.command,
                [*options.bind, *(replace(bind, writable=True) for bind in options.bind_writable)],
                lambda data: _tee(data, stream),
                place=_staging_place(options),
                engine=options.engine,
                patience_s=options.patience,
                as_user=options.as_user,
                # The run's folder; the log is in its logs/<attempt>.
                user=str(options.log_dir.absolute().parents[1]),
            )
        except (ArgosyError, OSError) as problem:
            if isinstance(problem, OSError) and not is_of_the_surroundings(problem):
                raise
            said = explained(problem) if isinstance(problem, OSError) else str(problem)
            # Messages about this node's missing agent refer to this log.
            stream.write(f"error: {said}\n".encode())
            print(f"error: {said}", file=sys.stderr)
            return 2


def run_image(
    digest: str,
    command: Sequence[str],
    binds: Sequence[Bind],
    on_output: Callable[[bytes], None],
    *,
    place: "Place | None" = None,
    engine: str | None = None,
    patience_s: float = 0.0,
    as_user: bool = False,
    user: str = "",
) -> int:
    """Run `command` in the frozen image, from the store or unpacked in a `place` of this node.

    Args:
        engine: the container engine; None: the fastest on this host that isolates.
        patience_s: seconds for the command to end after a request, besides a few seconds.
        as_user: the command takes this user's ids, or has them already.
        user: the user of the image for `Uses`, such as the folder of a run.

    Raises:
        ArgosyError: if the image is missing or does not start, or no engine works on this host.
    """
    store = Store.of_project(Path.cwd())
    description = _read_description(store.description(digest))
    _note_use(store.description(digest))
    config = description["config"]
    with (
        _in_use(store, digest, user),
        _root(store, digest, description["name"], place, on_output) as (root, held),
    ):
        inside = Container(
            root,
            command,
            binds=binds,
            environment={
                **DEFAULT_ENVIRONMENT,
                **config["environment"],
                **_own_variables(),
                **({USER_IDS_VARIABLE: f"{os.getuid()} {os.getgid()}"} if as_user else {}),
                **_entrypoint(config.get("entrypoint")),
            },
            secrets=_secrets(),
            workdir=config["workdir"],
            held=held,
            patience_s=patience_s,
            as_user=as_user,
        )
        chosen = engine or engine_of_host(store)
        if driver := driver_mount(store):
            inside = _with_driver(inside, driver)
        outcome = _run_by(store, inside, chosen, on_output)
        if outcome.failed_to_start:
            if engine is not None:
                raise _named_does_not_start(engine)
            if one_starts(store, [chosen]):
                raise _image_does_not_start(description["name"], chosen)
            # The host has changed since its engine was chosen.
            other = choose_engine(store).engine
            on_output(f"argosy: {chosen} did not start here, {other} does\n".encode())
            outcome = _run_by(store, inside, other, on_output)
            if outcome.failed_to_start:
                raise _image_does_not_start(description["name"], other)
    return KILLED if outcome.status is None else outcome.status


def _run_by(
    store: Store, inside: Container, engine: str, on_output: Callable[[bytes], None]
) -> Outcome:
    """Run the container by this engine, after a warning about the engine's missing protection."""
    if weakness := caution(engine):
        on_output(f"argosy: {weakness}\n".encode())
    environment = {**inside.environment, ENGINE_VARIABLE: engine}
    return container.run(store, replace(inside, engine=engine, environment=environment), on_output)


def _named_does_not_start(engine: str) -> ArgosyError:
    return ArgosyError(
        f"{engine} did not start the container",
        "images.engine in site.yaml names this engine: remove the key, or run `argosy image "
        "engines` on such a node to see the working engines",
    )


def _image_does_not_start(name: str, engine: str) -> ArgosyError:
    """Return the error for a failed start; no other engine is tried, since the image could be the cause."""
    return ArgosyError(
        f"image {name}: {engine} starts containers on {os.uname().nodename}, but not of this image",
        "its output is above. The image needs a /bin/sh that runs on this machine "
        f"({os.uname().machine}): build or import it again",
    )


def _with_driver(inside: Container, driver: Bind) -> Container:
    """Add NVIDIA's driver to the container, and the agent's module for it."""
    module = nvml_module()
    found = {NVML_VARIABLE: f"{GUEST_DIR}/{module.name}"} if module else {}
    return replace(
        inside,
        binds=[*inside.binds, driver],
        files=[module] if module else [],
        environment={**with_driver(inside.environment), **found},
    )


@contextmanager
def _root(
    store: Store, digest: str, name: str, place: "Place | None", on_output: Callable[[bytes], None]
) -> Iterator[tuple[Path, Sequence[int]]]:
    """Yield the image's tree, and descriptors of locks that keep it on the node."""
    if place is None:
        yield store.root(digest), ()
        return

    from argosy_images.staging.folder import Wanted
    from argosy_images.staging.stage import staged

    def say(line: str) -> None:
        on_output(f"argosy: {line}\n".encode())

    with staged(Wanted(digest, name, store.archive(digest)), place, say) as image:
        yield image.root, (image.lock,)


def _read_description(path: Path) -> dict[str, Any]:
    """Return the image's description, without its model: pydantic loads as slowly as a container starts."""
    if not path.is_file():
        raise ArgosyError(f"{path}: the image is missing", "build it with: argosy image build")
    description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return description


def _note_use(description: Path) -> None:
    """Touch the description, so that `argosy image prune` sees the image's last use."""
    # One node of a job is enough. Only users with write permission can prune the store.
    if os.environ.get("ARGOSY_NODE", "0") == "0":
        with suppress(OSError):
            os.utime(description)


@contextmanager
def _in_use(store: Store, digest: str, user: str) -> Iterator[None]:
    """Keep the image from being pruned while the container runs."""
    if not user or os.environ.get("ARGOSY_NODE", "0") != "0":
        yield
        return
    with store.uses.during(digest, user):
        yield


def _tee(data: bytes, log: BinaryIO) -> None:
    log.write(data)
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _own_variables() -> dict[str, str]:
    kept = (Store.VARIABLE, TOKEN_VARIABLE)
    own = {
        name: value
        for name, value in os.environ.items()
        if (name.startswith("ARGOSY_") and name not in kept) or name in GPU_VARIABLES
    }
    return {**own, TOKEN_FILE_VARIABLE: f"{GUEST_DIR}/{TOKEN_FILE}"} if _secrets() else own


def _entrypoint(words: Sequence[str] | None) -> dict[str, str]:
    said = " ".join(plain(shlex.join(words or ())).split())
    return {ENTRYPOINT_VARIABLE: said[:LONGEST_ENTRYPOINT]} if said else {}


def _secrets() -> dict[str, str]:
    """Return the job's token as a file: all programs in the container could read a variable."""
    token = os.environ.get(TOKEN_VARIABLE)
    return {TOKEN_FILE: token} if token else {}


def _staging_place(options: argparse.Namespace) -> "Place | None":
    """Return the place to unpack the image to, or None."""
    if options.stage is None:
        return None
    # Imported late: it is only needed to stage images.
    from argosy_images.staging.stage import MEMORY, Place

    if options.stage == "memory":
        return Place(MEMORY, room=None)
    return Place(options.stage_folder, room=options.stage_room << 20)


def _bind(text: str) -> Bind:
    source, _, target = text.rpartition(":")
    if not source or not target.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not SOURCE:TARGET")
    return Bind(Path(source), target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="argosy_images.run", description=__doc__)
    parser.add_argument("--digest", required=True, help="digest of the frozen image, sha256:…")
    parser.add_argument("--bind", type=_bind, action="append", default=[], metavar="SOURCE:TARGET")
    parser.add_argument(
        "--bind-writable",
        type=_bind,
        action="append",
        default=[],
        metavar="SOURCE:TARGET",
        help="like --bind, but the program may write to the folder",
    )
    parser.add_argument(
        "--log-dir", type=Path, required=True, help="folder for a copy of the output, node-N.log"
    )
    parser.add_argument(
        "--stage", choices=("node", "memory"), help="where to unpack the image (default: nowhere)"
    )
    parser.add_argument(
        "--stage-folder", type=Path, metavar="FOLDER", help="folder on the node's disk"
    )
    parser.add_argument(
        "--stage-room", type=int, metavar="MIB", help="room for kept images in that folder"
    )
    parser.add_argument(
        "--engine", choices=ENGINES, help="container engine (default: the fastest that isolates)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="time for the command to save its state before it is killed (default: 0)",
    )
    parser.add_argument(
        "--as-user", action="store_true", help="let the command take this user's ids"
    )
    parser.add_argument("command", nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
