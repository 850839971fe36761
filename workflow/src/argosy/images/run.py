"""Runs a command in a frozen image: `python -m argosy.images.run --digest sha256:… -- COMMAND`.

This is what stands in a batch script for each node. Every variable that begins with ARGOSY_, and those
that say which GPUs are the job's, go into the container, besides those that the image sets itself.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from argosy.errors import ArgosyError
from argosy.images import container
from argosy.images.container import DEFAULT_PATH, Bind, Container
from argosy.images.engines import choose_engine
from argosy.images.store import STORE_VARIABLE, Store

DEFAULTS = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", "HOME": "/tmp"}
"""Of programs in images that set none; a frozen image has no home that could be written to."""

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")

KILLED = 137
"""The shell's status of a command that was killed, when the command could not say so itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        log = options.log_dir / f"node-{os.environ.get('ARGOSY_NODE', '0')}.log"
        return run_image(options.digest, options.command, options.bind, log)
    except ArgosyError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def run_image(digest: str, command: Sequence[str], binds: Sequence[Bind], log: Path) -> int:
    """Run `command` in the frozen image; its output goes to standard output and to `log`.

    Raises:
        ArgosyError: when the image is not in the store or no engine works on this host.
    """
    store = Store.of_project(Path.cwd())
    description = store.description(digest)
    environment, workdir = _read_description(description)
    _note_use(description)
    inside = Container(
        store.root(digest),
        command,
        binds=binds,
        environment={**DEFAULTS, **environment, **_own_variables()},
        workdir=workdir,
    )
    with log.open("ab", buffering=0) as stream:
        outcome = container.run(store, inside, lambda data: _tee(data, stream))
        if outcome.failed_to_start:
            # Hardly ever: the other engines are for hosts without user namespaces.
            inside = replace(inside, engine=choose_engine(store, inside.root).engine)
            outcome = container.run(store, inside, lambda data: _tee(data, stream))
    return KILLED if outcome.status is None else outcome.status


def _read_description(path: Path) -> tuple[dict[str, str], str]:
    """Environment and working directory of the image's programs.

    Read without the model of an image.lock, which takes as long to load as the container to start.
    """
    if not path.is_file():
        raise ArgosyError(f"{path}: this image is not here; build it with: argosy image build")
    description = json.loads(path.read_text(encoding="utf-8"))
    return description["config"]["environment"], description["config"]["workdir"]


def _note_use(description: Path) -> None:
    """Let the file's time say when the image was used last, for `argosy image prune`."""
    # One node of a job is enough. Where only others may write to the store, it is theirs to prune.
    if os.environ.get("ARGOSY_NODE", "0") == "0":
        with suppress(OSError):
            os.utime(description)


def _tee(data: bytes, log: BinaryIO) -> None:
    log.write(data)
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _own_variables() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if (name.startswith("ARGOSY_") and name != STORE_VARIABLE) or name in GPU_VARIABLES
    }


def _bind(text: str) -> Bind:
    source, _, target = text.rpartition(":")
    if not source or not target.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not SOURCE:TARGET")
    return Bind(Path(source), target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="argosy.images.run", description=__doc__)
    parser.add_argument("--digest", required=True, help="of the frozen image, sha256:…")
    parser.add_argument("--bind", type=_bind, action="append", default=[], metavar="SOURCE:TARGET")
    parser.add_argument(
        "--log-dir", type=Path, required=True, help="the output goes into node-N.log here, too"
    )
    parser.add_argument("command", nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
