"""Prints the table of runs in a terminal, once or until all runs have ended."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from argosy.monitor.run_state import RunState, RunView
from argosy.monitor.sites import not_planned
from argosy.monitor.study import Snapshot, Study
from argosy.runtime.contract.throughput import SAMPLES
from argosy.terminal import make_table, plural, rate, span
from argosy_common.errors import plain

# The terminal's own colours are readable on its background, light or dark.
STYLES = {
    RunState.RUNNING: "bold green",
    RunState.FAILED: "bold red",
    RunState.GONE: "bold red",
    RunState.UNREADABLE: "bold red",
    RunState.REQUEUED: "magenta",
    RunState.INTERRUPTED: "magenta",
    RunState.CANCELLED: "magenta",
    RunState.PENDING: "",
    RunState.PLANNED: "dim",
    RunState.COMPLETED: "dim",
}
ALARM = "bold red"
GAP = "  "
MEASURES = ("left", "steps", "samples/s", "nodes")
_LEAST_WANTED = (3, 0, 1, 2)
"""Indices of measures, in the order in which a narrow screen drops them."""
_ANY = 10_000


@dataclass(frozen=True)
class Layout:
    """The layout of the table."""

    grouped: bool = True
    """Whether experiments have headings; if not, each line has the full name, for other programs."""
    room: int | None = None
    """Lines of the screen; None: all runs with their whole notes."""


def render(snapshot: Snapshot, layout: Layout) -> RenderableType:
    """Return the totals, problems of the queue, and the table of runs."""
    lines = headings(snapshot)
    # The totals may take a second line.
    shown = _fitting_views(snapshot.views, layout, len(lines) + 1)
    parts: list[RenderableType] = [*lines, Text(), _table(shown, layout)]
    if left_out := _left_out(snapshot.views, shown):
        parts.append(Text(f"  not shown: {left_out}", style="dim"))
    return Group(*parts)


def headings(snapshot: Snapshot) -> list[Text]:
    """Return a line of totals, and a second one while the queue is silent."""
    lines = [totals(snapshot)]
    answer = snapshot.answer
    if answer and answer.silent_since:
        known = f"its answer of {_clock(answer.asked)} and " if answer.asked else ""
        since = f"{snapshot.scheduler} has not answered since {_clock(answer.silent_since)}"
        said = f"{since} ({plain(answer.problem)}); this table shows {known}the files"
        lines.append(Text(said, style=ALARM, no_wrap=True, overflow="ellipsis"))
    return lines


def totals(snapshot: Snapshot) -> Text:
    """Return the line of totals, such as `testbed at 14:03:05: 9 runs, 2 running, …`."""
    line = Text.assemble((plain(snapshot.site), "bold"), f" at {_clock(snapshot.at)}: ")
    line.append(plural(len(snapshot.views), "run"))
    for state, count in _counts(snapshot.views):
        line.append(", ")
        line.append(f"{count} {state}", style=STYLES[state])
    if stuck := sum(view.stuck for view in snapshot.views):
        line.append("; ")
        line.append(f"{stuck} stuck (!)", style=ALARM)
    if snapshot.not_planned:
        line.append(f"; {not_planned(snapshot.not_planned)}")
    return line


def rows(views: Iterable[RunView], layout: Layout) -> Table:
    """Return a table of these runs without a header, for runs that changed."""
    return _table(list(views), layout, head=False)


def _table(views: Sequence[RunView], layout: Layout, head: bool = True) -> Table:
    widths = _widths(views)
    table = make_table(has_head=head)
    table.add_column("run", no_wrap=True, header_style="dim")
    table.add_column("state", no_wrap=True, header_style="dim")
    table.add_column("job", justify="right", no_wrap=True, header_style="dim")
    table.add_column("time", justify="right", no_wrap=True, header_style="dim")
    table.add_column(_Details(MEASURES, widths, Text(), is_line=True), header_style="dim")
    experiment = None
    for view in views:
        if layout.grouped and view.experiment != experiment:
            experiment = view.experiment
            table.add_row(Text(plain(experiment), style="bold"))
        table.add_row(
            Text(plain(f"  {view.run_id}" if layout.grouped else view.name)),
            Text(view.state, style=STYLES[view.state]),
            Text(plain(view.job)),
            Text("" if view.used_s is None else span(view.used_s)),
            _details(view, widths, layout),
        )
    return table


def _details(view: RunView, widths: Sequence[int], layout: Layout) -> "_Details":
    """Return measures for running and completed runs, notes for waiting and failed ones."""
    words = Text()
    if view.reason:
        said = f"{'! ' if view.stuck else ''}{plain(view.reason)}"
        words.append(said, ALARM if view.stuck else "bold")
        words.append(": " if view.note else "")
    words.append(plain(view.note))
    if view.state not in (RunState.RUNNING, RunState.COMPLETED):
        return _Details((), widths, words, is_line=layout.room is not None)
    style = "magenta" if view.progress.silent_s else ""
    return _Details(_cells(view), widths, words, style, is_line=layout.room is not None)


@dataclass(frozen=True)
class _Details:
    """A cell of measures and words; measures that do not fit are dropped whole."""

    cells: Sequence[str]
    widths: Sequence[int]
    words: Text
    style: str = ""
    is_line: bool = False

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(1, self._text(_ANY).cell_len))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._text(options.max_width)

    def _text(self, room: int) -> Text:
        measures = _measures(self.cells, _fitting_widths(self.widths, room)) if self.cells else ""
        text = Text.assemble((measures, self.style), GAP if measures and self.words else "")
        text.append_text(self.words)
        if self.is_line:
            text.no_wrap, text.overflow = True, "ellipsis"
        return text


def _fitting_widths(widths: Sequence[int], room: int) -> Sequence[int]:
    """Return the measures' widths, 0 for dropped ones."""
    kept = [*widths]
    for place in _LEAST_WANTED:
        if sum(kept) + len(GAP) * (sum(map(bool, kept)) - 1) > room:
            kept[place] = 0
    return kept


def _cells(view: RunView) -> tuple[str, ...]:
    progress = view.progress
    steps = "" if progress.steps is None else f"{progress.steps:,}"
    if progress.steps is not None and progress.total:
        share = int(100 * progress.steps / progress.total)
        steps += f"/{progress.total:,} {share} %"
    unit = "" if progress.unit == SAMPLES else f" {plain(progress.unit)}/s"
    speed = "" if progress.samples_per_s is None else f"{rate(progress.samples_per_s)}{unit}"
    if progress.silent_s is not None:
        speed = f"last {progress.silent_of} {span(progress.silent_s)} ago"
    return ("" if view.left_s is None else span(view.left_s), steps, speed, plain(view.nodes))


def _widths(views: Sequence[RunView]) -> list[int]:
    """Return the widths of the measures' columns, 0 for an empty column."""
    measured = [_cells(v) for v in views if v.state in (RunState.RUNNING, RunState.COMPLETED)]
    found = []
    for place, title in enumerate(MEASURES):
        longest = max((len(cells[place]) for cells in measured), default=0)
        found.append(max(longest, len(title)) if longest else 0)
    return found


def _measures(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return right-aligned numbers, followed by left-aligned nodes."""
    padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True) if width]
    if widths[-1] and padded:
        padded[-1] = cells[-1]
    return GAP.join(padded).rstrip()


def _fitting_views(views: Sequence[RunView], layout: Layout, above: int) -> Sequence[RunView]:
    """Return the most important runs that fit on the screen."""
    if layout.room is None:
        return views
    # Reserve an empty line, the table's header, and the line about runs not shown.
    room = max(3, layout.room - above - 4 - len({view.experiment for view in views}))
    order = list(RunState)
    ranked = sorted(views, key=lambda view: (not view.stuck, order.index(view.state)))
    chosen = {id(view) for view in ranked[:room]}
    return [view for view in views if id(view) in chosen]


def _left_out(views: Sequence[RunView], shown: Sequence[RunView]) -> str:
    here = {id(view) for view in shown}
    rest = [view for view in views if id(view) not in here]
    return ", ".join(f"{count} {state}" for state, count in _counts(rest))


def _counts(views: Iterable[RunView]) -> list[tuple[RunState, int]]:
    found = Counter(view.state for view in views)
    return [(state, found[state]) for state in RunState if found[state]]


def _clock(unix: float | None) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix))


PAUSE_S = 5.0
PATIENCE_ONCE_S = 15.0
PATIENCE_S = 3.0
EASE = 10.0
"""Ratio of the pause to the time of a snapshot, which limits the load of many runs."""


def show(study: Study, console: Console) -> None:
    """Print the table."""
    _print_once(study.look(PATIENCE_ONCE_S), console)


def watch(study: Study, console: Console, pause_s: float = PAUSE_S) -> None:
    """Show the table until all runs have ended or the user interrupts."""
    try:
        if console.is_terminal:
            _refresh(study, console, pause_s)
        else:
            _tell_changes(study, console, pause_s)
    except KeyboardInterrupt:
        return


def _refresh(study: Study, console: Console, pause_s: float) -> None:
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for snapshot in _snapshots(study, pause_s):
            layout = Layout(room=console.height - 1)
            live.update(render(snapshot, layout), refresh=True)


def _tell_changes(study: Study, console: Console, pause_s: float) -> None:
    """Print the table; whenever a run's state changes, print the totals and the changed runs."""
    known: dict[str, tuple[object, ...]] = {}
    for snapshot in _snapshots(study, pause_s):
        states = {view.name: _state_of(view) for view in snapshot.views}
        if not known:
            _print_once(snapshot, console)
        elif states != known:
            changed = [view for view in snapshot.views if states[view.name] != known.get(view.name)]
            for line in headings(snapshot):
                console.print(line)
            console.print(rows(changed, Layout(grouped=False)))
        known = states


def _snapshots(study: Study, pause_s: float) -> Iterator[Snapshot]:
    """Yield snapshots until all runs have ended.

    A job that lost its node may briefly look ended before its requeue, so a second snapshot confirms the
    end.
    """
    over = False
    while not over:
        began = time.monotonic()
        snapshot = study.look(PATIENCE_S)
        yield snapshot
        time.sleep(max(pause_s, EASE * (time.monotonic() - began)))
        over = snapshot.ended and study.look(PATIENCE_S).ended


def _state_of(view: RunView) -> tuple[object, ...]:
    return view.state, view.job, view.reason, view.progress.silent_s is None


def _print_once(snapshot: Snapshot, console: Console) -> None:
    console.print(render(snapshot, Layout(grouped=console.is_terminal)))
