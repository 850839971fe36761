"""Work with a cluster by hand: `python -m cluster up|run|down FOLDER …`."""

import argparse
import subprocess
import sys
from pathlib import Path

from cluster import Cluster, ClusterError, missing


def main() -> int:
    """Do it; the exit status of what was run."""
    options = _parser().parse_args()
    try:
        return int(options.action(options) or 0)
    except ClusterError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1


def _up(options: argparse.Namespace) -> None:
    if problem := missing():
        raise ClusterError(problem)
    cluster = Cluster.start(
        options.folder, nodes=options.nodes, accounting=options.accounting, outlive=True
    )
    print(cluster.run("sinfo").stdout, end="")


def _down(options: argparse.Namespace) -> None:
    Cluster.at(options.folder).stop()


def _run(options: argparse.Namespace) -> int:
    # The terminal's interrupt goes to the command alone: this program waits for its end.
    process = Cluster.at(options.folder).popen(*options.command, stdin=None)
    return _wait(process)


def _wait(process: "subprocess.Popen[str]") -> int:
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue
        return code if code >= 0 else 128 - code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    actions = parser.add_subparsers(required=True)
    up = actions.add_parser("up", help="start a cluster in a new folder")
    up.add_argument("--nodes", type=int, default=4)
    up.add_argument("--accounting", action="store_true", help="with slurmdbd, for sacct")
    run = actions.add_parser("run", help="run a command on the login side")
    down = actions.add_parser("down", help="end it and remove the folder")
    for action, function in ((up, _up), (run, _run), (down, _down)):
        action.add_argument("folder", type=Path)
        action.set_defaults(action=function)
    run.add_argument("command", nargs=argparse.REMAINDER)
    return parser


if __name__ == "__main__":
    sys.exit(main())
