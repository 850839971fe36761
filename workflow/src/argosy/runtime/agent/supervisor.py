"""The agent's main loop.

One thread decides. The others (heartbeat, output, server) and the signal handlers only put
events into its queue.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Sequence

from ..contract import layout
from ..contract.files import FOLDER_MODE, UMASK
from .coordination.channel import Channel
from .coordination.coordinator import judge
from .coordination.failure import Failure, Sighting, ends_the_job, signal_name
from .events import Event, EventQueue, SignalEvent
from .files import open_for_append, write_cause
from .hangs.inspection import Finding
from .hangs.node_watch import NodeWatch
from .processes.beside import Beside
from .processes.children import Guard, adopt_orphans, children, end_children
from .processes.launch import StartError
from .processes.links import LinkWatch
from .processes.measurements import PrintedThroughput
from .processes.memory_limits import kills_in_job, memory_kills
from .processes.mpi_tasks import MpiTasks
from .processes.output import Console
from .processes.printed_metrics import counts
from .processes.program import Program
from .processes.ranks import Ranks
from .rendezvous.reserved_ports import watch_listener
from .settings import AGENT_STORE, MeetingPoint, NodePlace, Settings, SettingsError, read_settings
from .status import CANCELLED, COMPLETED, FAILED, INTERRUPTED, StatusFile
from .telemetry.start import telemetry_of
from .transport.messages import Order, Outcome, Report
from .transport.open_files import OpenFiles
from .transport.signing import take_secrets
from .user_ids import take_ids

_EXIT_CODES = {COMPLETED: 0, FAILED: 1, INTERRUPTED: 75, CANCELLED: 130}
_CANCELLING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Seconds between checks of deadlines: at most, and while ranks train. Events are handled at once.
_TICK, _TICK_IN_TRAINING = 0.25, 1.0
# Seconds after a warning until unhandled warnings are reported.
_HEARING_S = 5.0
_MOST_LEFT = 8
# Seconds in which a second termination signal counts as a repetition of the first.
_REPEAT_S = 2.0


class Supervisor:
    """Runs one node of a job from its first state to its last."""

    def __init__(self, settings: Settings, guard: Guard) -> None:
        self._settings = settings
        self._events = EventQueue()
        self._console = Console(sys.stdout.fileno(), self._trouble)
        self._status = StatusFile(settings)
        self._printed = {
            rank: PrintedThroughput(settings, rank, self._trouble)
            for rank in settings.searched_ranks
        }
        self._tasks = MpiTasks(settings)
        self._ranks = Ranks(settings, guard, OpenFiles(), self._tasks)
        self._beside = Beside(settings, guard)
        self._channel = Channel(
            settings,
            self._console.say,
            put=self._events.put,
            trouble=self._trouble,
            accept=self._ranks.left_unfinished,
        )
        self._telemetry = telemetry_of(settings, self._console.say)
        self._watch = NodeWatch(found=self._events.put)
        self._links: LinkWatch | None = None
        self._spare = children()
        self._memory_kills = memory_kills()
        self._sightings: list[Sighting] = []
        self._cancelled: tuple[int, float] | None = None
        self._signalled: float | None = None
        self._saving_since: float | None = None
        self._warned = False
        self._nobody_heard_at: float | None = None
        self._order = Order()
        self._alone = False
        self._started = False
        self._ended = False
        self._unmeasured: Failure | None = None
        self._outcome: Outcome | None = None

    def run(self) -> int:
        """Run the node's part of the job and return the exit code."""
        self._handle_signals()
        node, nodes = self._settings.node, self._settings.nodes
        self._console.say(f"node {node} of {nodes}: agent started")
        self._prepare()
        self._connect()
        while self._outcome is None:
            self._next_event()
            self._advance()
        self._finish(self._outcome)
        if not self._alone:
            self._channel.take_leave()
        # Python removes handlers while it exits: a late signal would change the exit code.
        for number in _CANCELLING:
            signal.signal(number, signal.SIG_IGN)
        return self._say_outcome(self._outcome)

    # ---- the beginning

    def _handle_signals(self) -> None:
        for number in _CANCELLING:
            signal.signal(number, lambda number, _: self._events.put(SignalEvent(number)))
        # Handled, not ignored: ranks inherit an ignored signal, and their shells could not trap it.
        signal.signal(signal.SIGUSR1, lambda number, _: None)
        # Any event makes the loop look for ended children.
        signal.signal(signal.SIGCHLD, lambda number, _: self._events.put(SignalEvent(number)))

    def _prepare(self) -> None:
        path = self._settings.records
        try:
            os.makedirs(path, FOLDER_MODE, exist_ok=True)
            path = self._settings.logs
            os.makedirs(path, FOLDER_MODE, exist_ok=True)
            path = self._status.path
            self._status.begin()
        except OSError as error:
            self._see(self._own_failure(write_cause(error, path)))
        self._telemetry.begin()

    def _connect(self) -> None:
        try:
            self._channel.open(self._report())
        except OSError as error:
            self._alone = True
            self._see(self._own_failure(error.strerror or str(error)))

    # ---- the loop

    def _next_event(self) -> None:
        hurry = not self._started or self._stopping() or bool(self._sightings)
        hurry = hurry or self._saving_since is not None
        event = self._events.get(_TICK if hurry else _TICK_IN_TRAINING)
        if event is not None:
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Order):
            self._order = event
            self._outcome = event.outcome
            self._watch.obey(event, self._ranks.watched)
        elif isinstance(event, Finding):
            self._watch.finding = event
            self._tell()
        elif isinstance(event, Failure):
            self._see(event)
        elif isinstance(event, Sighting):
            self._alone = True
            self._see(event.failure, event.seen)
        elif event.number in _CANCELLING and self._cancelled is None and not self._is_repeated():
            self._console.say(f"node {self._settings.node}: {signal_name(event.number)} received")
            if self._can_wait():
                self._ranks.note_signal(event.number)
                self._warn()
            else:
                self._cancelled = (event.number, time.monotonic())
            self._tell()

    def _is_repeated(self) -> bool:
        """Return whether this signal repeats the last one: the launcher may forward it as well."""
        now = time.monotonic()
        if self._signalled is not None and now < self._signalled + _REPEAT_S:
            return True
        self._signalled = now
        return False

    def _can_wait(self) -> bool:
        """Return whether the ranks get time to save a checkpoint before a signal ends them.

        Schedulers send SIGTERM to preempted and to cancelled jobs. A second signal ends the job at once.
        """
        saves = self._settings.run.warning_s is not None
        if not saves or self._saving_since is not None or not self._started:
            return False
        self._saving_since = time.monotonic()
        return True

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            self._console.say(f"node {self._settings.node}: time to save a checkpoint and end")
            # Ranks without a handler yet find this file later.
            with contextlib.suppress(OSError):
                os.close(open_for_append(self._settings.record(layout.WARNED)))
            self._nobody_heard_at = time.monotonic() + _HEARING_S
        if self._ranks.warn():
            self._update_status()
        if self._nobody_heard_at is not None and time.monotonic() > self._nobody_heard_at:
            self._nobody_heard_at = None
            for rank in self._ranks.unheard:
                self._console.say(f"no process of rank {rank} handles the warning (SIGUSR1)")

    def _advance(self) -> None:
        self._collect()
        patience = self._settings.run.warning_s or 0.0
        if self._saving_since is not None and time.monotonic() > self._saving_since + patience:
            self._cancelled = self._cancelled or (signal.SIGTERM, time.monotonic())
        is_warned = self._warned or self._order.warn
        if is_warned and self._started and self._settings.run.warning_s is not None:
            self._warn()
        if self._stopping():
            self._ranks.stop()
        elif self._started:
            self._watch.look(self._ranks.watched)
            self._channel.tell(self._report(), now=False)
        elif self._order.start:
            places = self._channel.places()
            if places is not None and self._can_start():
                self._start(places)
        if not self._ended and (self._started or self._stopping()) and not self._ranks.running:
            self._end_ranks()
        if self._alone and self._ended and self._outcome is None:
            cancelled = self._cancelled[1] if self._cancelled else None
            finished = self._ranks.finished
            self._outcome = judge(self._sightings, cancelled, self._saving_since, finished)

    def _stopping(self) -> bool:
        ends = ends_the_job(self._sightings, time.monotonic())
        return ends or self._cancelled is not None or self._order.stop

    def _can_start(self) -> bool:
        try:
            return self._tasks.are_there()
        except (StartError, OSError) as error:
            self._see(self._own_failure(str(error)))
            return False

    def _start(self, places: Sequence[NodePlace]) -> None:
        self._started = True
        self._status.note_start_of_ranks()
        try:
            meeting = MeetingPoint(
                self._channel.rendezvous, self._order.ports, places, self._channel.pmi
            )
            head = self._settings.head_address
            for port in self._programs_ports if self._settings.node == 0 else ():
                place, own = (head, port), (head, self._settings.head_port)
                watch = threading.Thread(
                    target=watch_listener, args=[place, own, self._trouble], daemon=True
                )
                watch.start()
            self._beside.start(meeting, self._channel.store)
            self._ranks.start(
                meeting,
                self._console,
                self._trouble,
                {rank: printed.search for rank, printed in self._printed.items()},
                self._watch.open(),
            )
            self._watch_links()
        except (StartError, OSError) as error:
            self._see(self._own_failure(str(error)))
        self._update_status()

    @property
    def _programs_ports(self) -> set[int]:
        """Ports of the head on which the program itself listens."""
        ports = self._order.ports
        return {*ports.values()} - {ports.get(AGENT_STORE, 0)}

    def _watch_links(self) -> None:
        settings = self._settings
        run = settings.run
        if not run.has_to_meet:
            return
        # A rank that connects to these alone has not met another.
        servers = (settings.head_port, self._channel.rendezvous[1], self._channel.pmi[1])
        ports = {*servers, self._order.ports.get(AGENT_STORE, 0), *self._tasks.ports}
        ranks, beside = self._ranks.watched, self._beside.pids
        processes: dict[int, Sequence[int]] = {rank.number: [rank.pid] for rank in ranks}
        # Connections of commands beside the program count for the node's first rank.
        first = settings.node if run.lone_program else settings.node * settings.ranks_per_node
        program = None
        if run.lone_program:
            processes = {}
            for rank in ranks:
                program = Program(run.lone_program, rank.pid, rank.started_as, len(run.start or ()))
                processes[program.number] = [program.pid]
        if beside:
            processes[first] = [*processes.get(first, ()), *beside]
        self._links = LinkWatch(settings, processes, ports, self._programs_ports, program)
        self._links.start()

    def _collect(self) -> None:
        # Ranks that end after the first failure follow from it; those found with it may be its cause.
        stopping = self._stopping()
        ended = self._ranks.collect_ended(self._beside.collectors)
        lost = None if stopping else self._beside.failure() or self._tasks.failure()
        if lost and not self._sightings:
            self._see(lost)
        for rank in ended:
            failure = rank.failure()
            if rank.finished and not rank.interrupted:
                failure = self._channel.failure(rank.finished)
            if failure and not stopping:
                self._see(failure)
        if ended:
            self._update_status()

    def _end_ranks(self) -> None:
        left = end_children(self._spare.union(self._beside.pids))
        # Those of commands beside the program end with these.
        if not self._settings.run.beside:
            self._ranks.left_behind += left
        self._ranks.drain()
        for printed in self._printed.values():
            printed.end()
        # Failed writes of output must be known before the node counts as completed.
        while (event := self._events.get(0)) is not None:
            self._take(event)
        self._unmeasured = next(
            filter(None, (each.failure() for each in self._printed.values())), None
        )
        self._ended = True
        self._tell()

    # ---- the end

    def _finish(self, outcome: Outcome) -> None:
        if self._links and all(rank.exit_code == 0 for rank in self._ranks.statuses):
            self._links.note(self._channel.met)
            self._links.write()
        self._beside.stop()
        end_children(self._spare)
        self._channel.close()
        self._watch.close()
        self._telemetry.stop()
        left = self._ranks.left_behind
        metrics = counts((each.lines, each.metrics) for each in self._printed.values())
        try:
            self._status.end(
                outcome.state,
                self._ranks.statuses,
                outcome.failure,
                silence=self._channel.silence or None,
                killed_for_memory=kills_in_job(self._memory_kills, memory_kills()),
                **({"metrics": metrics} if metrics else {}),
                **({"left_behind": left[:_MOST_LEFT]} if left else {}),
            )
        except OSError as error:
            self._console.say(
                f"node {self._settings.node}: {write_cause(error, self._status.path)}"
            )

    def _say_outcome(self, outcome: Outcome) -> int:
        if outcome.failure:
            self._console.say(str(outcome.failure))
        elif outcome.state == CANCELLED:
            by = signal_name(self._cancelled[0]) if self._cancelled else "another node"
            self._console.say(f"node {self._settings.node}: cancelled by {by}")
        else:
            self._console.say(f"node {self._settings.node}: {outcome.state}")
        return _EXIT_CODES[outcome.state]

    # ---- failures and reports

    def _own_failure(self, cause: str) -> Failure:
        return Failure(self._settings.node, None, cause, time.time())

    def _see(self, failure: Failure, seen: float | None = None) -> None:
        self._sightings.append(Sighting(failure, time.monotonic() if seen is None else seen))
        self._console.say(f"stopping: {failure}")
        self._tell()

    def _trouble(self, cause: str) -> None:
        self._events.put(self._own_failure(cause))

    def _tell(self) -> None:
        self._channel.tell(self._report(), now=True)

    def _report(self) -> Report:
        return Report(
            self._settings.node,
            ended=self._ended,
            cancelled=self._cancelled is not None,
            warned=self._warned,
            signalled=self._saving_since is not None,
            interrupted=self._ranks.interrupted,
            failures=tuple(each.failure for each in self._sightings),
            quiet=self._watch.activity.quiet if self._started else 0.0,
            pace=self._watch.activity.pace,
            looked=self._watch.finding.number,
            places=self._watch.finding.places,
            stall=self._watch.stall,
            missing=self._watch.missing,
            finished=self._ranks.finished if self._started else (),
            unmeasured=self._unmeasured,
        )

    def _update_status(self) -> None:
        # On a full disk only the final status is needed: it has a reserve.
        with contextlib.suppress(OSError):
            self._status.update(self._ranks.statuses)


def main() -> int:
    """Run the agent with the settings of the environment and return its exit code."""
    try:
        settings = read_settings(take_secrets(os.environ))
        if settings.user_ids:
            take_ids(*settings.user_ids)
    except (SettingsError, OSError) as error:
        print(f"argosy: {error}", flush=True)
        return 2
    os.umask(UMASK)
    adopt_orphans()
    return Supervisor(settings, Guard.start()).run()
