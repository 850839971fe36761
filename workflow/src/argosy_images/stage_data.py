"""Copy data to a node's disk, then run a command: `start.py data FOLDER ROOM NOTED DATA -- COMMAND`.

FOLDER is on the node's disk, ROOM the MiB of kept copies there, NOTED the attempt's data.json. DATA is
TARGET MODE PATH for each entry: a path in the container, `s` for data to copy, and the path on the host.
In COMMAND, mounts PATH:TARGET get the path of the copy instead. So does the line of TARGET in ARGOSY_DATA,
for agents without a container. ARGOSY_STAGED gives the agent the copies' times.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from argosy_common.errors import ArgosyError, plain
from argosy_images.staging.data import Noted, copied
from argosy_images.staging.stage import Place

DATA_VARIABLE = "ARGOSY_DATA"
STAGED_VARIABLE = "ARGOSY_STAGED"


def main(arguments: Sequence[str]) -> int:
    """Replace this process by the command; return 2, after an error, if data cannot be copied."""
    folder, room, noted, *rest = arguments
    split = rest.index("--")
    triples = [tuple(rest[place : place + 3]) for place in range(0, split, 3)]
    command, place = rest[split + 1 :], Place(Path(folder), int(room) << 20)
    paths = {target: path for target, _, path in triples}
    staged = {}
    with ExitStack() as held:
        for target, mode, path in triples:
            if mode != "s":
                continue
            began = time.monotonic()
            say = partial(_say, target)
            try:
                copy = held.enter_context(copied(path, _noted(noted, target), place, say))
            except (ArgosyError, OSError) as problem:
                why = str(problem)
                if isinstance(problem, OSError):
                    why = f"{problem.filename or path}: {problem.strerror}"
                key = f"{os.environ.get('ARGOSY_DATA_KEY', 'data')}.{target}"
                print(f"argosy: {_node()} did not start: {key}: {plain(why)}", file=sys.stderr)
                return 2
            if copy.was_there:
                say("the copy of another job is there")
            # The command inherits the lock, so the copy stays until it ends.
            os.set_inheritable(copy.lock, True)
            paths[target] = str(copy.root)
            staged[target] = {"seconds": time.monotonic() - began, "was_there": copy.was_there}
            mount = f"{path}:{target}"
            command = [f"{copy.root}:{target}" if word == mount else word for word in command]
        if DATA_VARIABLE in os.environ:
            lines = (f"{target}\t{path}\n" for target, path in paths.items())
            os.environ[DATA_VARIABLE] = "".join(lines)
        os.environ[STAGED_VARIABLE] = json.dumps(staged)
        os.execvp(command[0], command)
    return 2


def _say(target: str, line: str) -> None:
    print(f"argosy: {_node()}: {target}: {line}", file=sys.stderr, flush=True)


def _node() -> str:
    return f"node {os.environ.get('ARGOSY_NODE', '0')} on {os.uname().nodename}"


def _noted(path: str, target: str) -> Noted:
    found = json.loads(Path(path).read_text(encoding="utf-8"))["data"]
    if target not in found:
        raise ArgosyError(
            "the job's first node does not see it", "write a path that every node sees"
        )
    names = Noted.__dataclass_fields__
    return Noted(**{name: value for name, value in found[target].items() if name in names})
