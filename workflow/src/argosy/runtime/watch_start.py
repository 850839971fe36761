"""Detect nodes that do not start, and the cause: ``python3 watch_start.py RUN_DIR ATTEMPT [PID…]``.

Runs on the host beside the launcher, whose processes are PID…, until all agents have started or those
processes have ended; without any PID, it checks once. Messages of the launcher and the nodes arrive in
the job's log even if a node sees none of the project. The first failed node is written to
attempts/<attempt>/not-started.json, for the waiting agents and the verdict. If nodes are still starting
`GRACE` seconds later, the launcher is ended. Once all agents have started, watch_end.py takes over.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from typing import Any, Iterable, Sequence

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from . import log_words, printing
from .contract import files, layout
from .contract.attempt import Attempt
from .watch_end import end_launcher, runs, watch_end

INTERVAL = 0.5  # seconds
GRACE = 15.0
_OWN_WORD_TIME = 1.0
"""Seconds for the node's own line to follow the launcher's."""
_LONGEST_CAUSE = 2000

_SAID_BY_NODE = re.compile(r"argosy: node (\d+) on (\S+) did not start: (.+)")
_BY_SIGNAL = 128  # exit codes above mean a signal: the node was ended from outside
_ESCAPES = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]"
)
# Patterns of lines with the cause of a failure, the most specific first; the group captures the cause.
_TELLING = tuple(
    re.compile(pattern)
    for pattern in (
        r"error: (.+)",
        r"argosy: (?!node \d+ )(.+)",
        r"((?:\w+\.)*\w*(?:Error|Exception|NotFound): .+)",
        r"(?:.*: line \d+: |\S*bash: )(.+: (?:No such file or directory|Permission denied|"
        r"command not found|not found|unbound variable|cannot execute.*|Exec format error))",
    )
)
# Patterns that come after the scheduler's own.
_LESS_TELLING = (
    re.compile(r"(?:.*: line \d+: |\S*bash: )(.+)"),
    re.compile(r"(.+: (?:cannot|failed to) .+)"),
)


def main(arguments: Sequence[str], *, to_the_end: bool = False) -> int:
    """Watch the start, and optionally the job's end; return 2 if the run's folder cannot be read."""
    if len(arguments) < 2:
        printing.complain("usage: watch_start.py RUN_DIR ATTEMPT [PID...]")
        return 2
    run_dir, name, *pids_given = arguments
    attempt = Attempt(run_dir, name)
    try:
        run = attempt.run()
    except (OSError, ValueError) as error:
        printing.complain(f"argosy: {os.path.join(run_dir, layout.RUN)}: {error!r}")
        return 2
    pids = [*map(int, pids_given)]
    watch(Start(attempt, run.nodes), pids)
    if to_the_end:
        # If the run can continue without lost nodes, the next attempt starts at once.
        watch_end(attempt, run.nodes, pids, is_urgent=run.least_nodes is not None)
    return 0


def watch(start: Start, pids: Sequence[int]) -> None:
    """Check until all nodes have started; after a failed start, end the launcher."""
    while any(map(runs, pids)):
        if not start.missing():
            return
        if start.note(start.failure(pids)):
            _end(pids)
            return
        time.sleep(INTERVAL)
    if start.missing():
        start.note(start.failure(pids) or start.guess())


class Start:
    """The start of one attempt: missing nodes and their failures."""

    def __init__(self, attempt: Attempt, nodes: int) -> None:
        self._attempt = attempt
        self._nodes = range(nodes)
        self._words = log_words.load()
        self._ended_first: float | None = None

    def missing(self) -> list[int]:
        """Return the nodes without a status file."""
        there = self._attempt.list_records()
        return [node for node in self._nodes if layout.node_status(node) not in there]

    def failure(self, pids: Sequence[int]) -> dict[str, Any] | None:
        """Return the failure of a node that did not start, if a message reports one."""
        lines = self._lines(layout.JOB_LOG)
        missing = self.missing()
        found = self._said_by_node(lines, missing)
        if found is None and (found := self._said_by_launcher(lines, missing)):
            now = time.monotonic()
            self._ended_first = self._ended_first or now
            if any(map(runs, pids)) and now < self._ended_first + _OWN_WORD_TIME:
                return None
        if found or len(pids) != len(self._nodes):
            return found
        # On the site `local`, each process is a node.
        ended = [node for node in missing if not runs(pids[node])]
        return self._failure(ended[0], None, self._telling(ended[0])) if ended else None

    def guess(self) -> dict[str, Any] | None:
        """Return the likely failure after the launcher's end; None without a telling line."""
        node = self.missing()[0]
        cause = self._telling(node)
        return self._failure(node, None, cause) if cause else None

    def note(self, failure: dict[str, Any] | None) -> bool:
        """Write a failure; return whether there is one."""
        if failure is None:
            return False
        with contextlib.suppress(OSError):
            self._attempt.write(layout.NOT_STARTED, failure)
        return True

    def _said_by_node(self, lines: Iterable[str], missing: list[int]) -> dict[str, Any] | None:
        for line in lines:
            said = _SAID_BY_NODE.fullmatch(line)
            if said and int(said[1]) in missing:
                node, cause = int(said[1]), said[3]
                if cause.startswith("exit code "):
                    cause = self._telling(node) or f"{cause}; {self._last_line(node)}"
                return self._failure(node, said[2], cause)
        return None

    def _said_by_launcher(self, lines: Sequence[str], missing: list[int]) -> dict[str, Any] | None:
        for line in lines:
            host, nodes, code = self._words.failed_nodes(line) or ("", (), 0)
            if code > _BY_SIGNAL:
                continue
            for node in nodes:
                if node in missing:
                    why = telling_line(lines, self._words) or f"exit code {code}"
                    return self._failure(node, host, f"its start command failed: {why}")
        return None

    def _telling(self, node: int) -> str:
        """Return the cause in the node's log, else in the job's, else in the scheduler's."""
        for name in (layout.node_log(node), layout.JOB_LOG, self._attempt.scheduler_log):
            if found := telling_line(self._lines(name), self._words):
                return found
        return ""

    def _last_line(self, node: int) -> str:
        """Quote the last line of the node's log."""
        lines = [line for line in self._lines(layout.node_log(node)) if line]
        return f"it printed last: {lines[-1]}" if lines else "no cause was reported"

    def _lines(self, name: str) -> list[str]:
        text = files.read_log(os.path.join(self._attempt.logs, name))
        return [plain(line) for line in re.split(r"[\r\n]+", text)]

    def _failure(self, node: int, host: str | None, cause: str) -> dict[str, Any]:
        return {
            "node": node,
            "host": host,
            "cause": f"it did not start: {cause or 'no cause was reported'}"[:_LONGEST_CAUSE],
            "at": time.time(),
        }


def telling_line(lines: Sequence[str], words: log_words.LogWords) -> str:
    """Return the first line of the most specific pattern that matches any; empty without one.

    Lines of ranks never match: they begin with the rank's number in brackets.
    """
    for pattern in (*_TELLING, *words.TELLING, *_LESS_TELLING):
        for line in lines:
            found = pattern.fullmatch(line)
            if found:
                return found[1].strip()
    return ""


def plain(line: str) -> str:
    """Remove colours and other control sequences from a line."""
    return _ESCAPES.sub("", line).strip()


def _end(pids: Sequence[int]) -> None:
    """End the launcher unless the running agents end the job within `GRACE` seconds."""
    deadline = time.monotonic() + GRACE
    while any(map(runs, pids)):
        if time.monotonic() > deadline:
            end_launcher(pids)
            return
        time.sleep(INTERVAL)


if __name__ == "__main__":
    # Ignore signals: this program ends after the launcher.
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:], to_the_end=True))
