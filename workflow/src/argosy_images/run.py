"""Runs a command in a frozen image: `python -m argosy_images.run --digest sha256:… -- COMMAND`.

This is what stands in a batch script for each node. Every variable that begins with ARGOSY_, and those
that say which GPUs are the job's, go into the container, besides those that the image sets itself.
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
"""Tells the agent what its container was started with, for the record."""

USER_IDS_VARIABLE = "ARGOSY_USER_IDS"
"""User and group that the agent and its ranks take, instead of root."""

ENTRYPOINT_VARIABLE = "ARGOSY_ENTRYPOINT"
"""Tells the agent what is not run, for the cause of a command that is not found."""

TOKEN_VARIABLE = "ARGOSY_TOKEN"
TOKEN_FILE_VARIABLE = "ARGOSY_TOKEN_FILE"
TOKEN_FILE = "token"
"""The agent reads it and takes it away before anything else runs."""

LONGEST_ENTRYPOINT = 200
"""Letters of it that a message quotes."""

KILLED = 137
"""The shell's status of a command that was killed, when the command could not say so itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    log = options.log_dir / f"node-{os.environ.get('ARGOSY_NODE', '0')}.log"
    # Not by way of a link that an earlier program of the run may have put there.
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
                # Below the run's folder, logs/<attempt>.
                user=str(options.log_dir.absolute().parents[1]),
            )
        except (ArgosyError, OSError) as problem:
            if isinstance(problem, OSError) and not is_of_the_surroundings(problem):
                raise
            said = explained(problem) if isinstance(problem, OSError) else str(problem)
            # Errors about a missing agent of this node point to this log.
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
        engine: of containers; None: the fastest on this host of those that isolate.
        patience_s: what the command may take to end once it was asked to, besides a few seconds.
        as_user: the command takes this user's ids, or has them already.
        user: who needs the image meanwhile, such as the folder of a run.

    Raises:
        ArgosyError: when the image is not in the store or does not start, or no engine works on this host.
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
            # The host is not what it was when its engine was chosen.
            other = choose_engine(store).engine
            on_output(f"argosy: {chosen} did not start here, {other} does\n".encode())
            outcome = _run_by(store, inside, other, on_output)
            if outcome.failed_to_start:
                raise _image_does_not_start(description["name"], other)
    return KILLED if outcome.status is None else outcome.status


def _run_by(
    store: Store, inside: Container, engine: str, on_output: Callable[[bytes], None]
) -> Outcome:
    """Run it by this engine, after saying what that one does not protect from."""
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
    """Return whether no other engine is tried: what an image does must not choose its engine."""
    return ArgosyError(
        f"image {name}: {engine} starts containers on {os.uname().nodename}, but not of this image",
        "its output is above. The image needs a /bin/sh that runs on this machine "
        f"({os.uname().machine}): build or import it again",
    )


def _with_driver(inside: Container, driver: Bind) -> Container:
    """Return the container with NVIDIA's driver, and with the module by which the agent asks it."""
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
    """Open the image's tree, and the descriptors that keep it there."""
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
    """Return the image's lock: its name, and how its programs are started.

    Read without the model of an image.lock, which takes as long to load as the container to start.
    """
    if not path.is_file():
        raise ArgosyError(f"{path}: the image is missing", "build it with: argosy image build")
    description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return description


def _note_use(description: Path) -> None:
    """Let the file's time say when the image was used last, for `argosy image prune`."""
    # One node of a job is enough. Where only others may write to the store, it is theirs to prune.
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
    """Return the job's token. As a variable it could be read by all that runs in the container."""
    token = os.environ.get(TOKEN_VARIABLE)
    return {TOKEN_FILE: token} if token else {}


def _staging_place(options: argparse.Namespace) -> "Place | None":
    """Return where the image is to be unpacked, if it is."""
    if options.stage is None:
        return None
    # Not above: where nothing is staged, nothing of it is loaded.
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
    parser.add_argument("--digest", required=True, help="of the frozen image, sha256:…")
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
        "--log-dir", type=Path, required=True, help="the output goes into node-N.log here, too"
    )
    parser.add_argument(
        "--stage", choices=("node", "memory"), help="unpack the image there (default: do not)"
    )
    parser.add_argument("--stage-folder", type=Path, metavar="FOLDER", help="of the node's disk")
    parser.add_argument("--stage-room", type=int, metavar="MIB", help="room for kept images there")
    parser.add_argument(
        "--engine", choices=ENGINES, help="of containers (default: the fastest with isolation)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="time for the command to save its state when it is asked to end (default: 0)",
    )
    parser.add_argument(
        "--as-user", action="store_true", help="let the command take this user's ids"
    )
    parser.add_argument("command", nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
