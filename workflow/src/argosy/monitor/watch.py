"""Showing a study once, or again and again until it has ended."""

import time

from rich.console import Console
from rich.live import Live

from argosy.monitor.states import RunView
from argosy.monitor.study import Snapshot, Study
from argosy.monitor.table import Layout, headings, render, rows

PAUSE_S = 5.0
PATIENCE_ONCE_S = 15.0
PATIENCE_S = 3.0
EASE = 10.0
"""Looking takes no more than a tenth of the time, however many runs there are."""


def show(study: Study, console: Console) -> None:
    """Print the table."""
    _print(study.look(PATIENCE_ONCE_S), console)


def watch(study: Study, console: Console, pause_s: float = PAUSE_S) -> None:
    """Show the table until all runs have ended, or the user has seen enough."""
    try:
        if console.is_terminal:
            _refresh(study, console, pause_s)
        else:
            _tell_changes(study, console, pause_s)
    except KeyboardInterrupt:
        return


def _refresh(study: Study, console: Console, pause_s: float) -> None:
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        over = False
        while not over:
            began = time.monotonic()
            snapshot = study.look(PATIENCE_S)
            layout = Layout(room=console.height - 1)
            live.update(render(snapshot, layout), refresh=True)
            over = _sleep(study, snapshot, began, pause_s)


def _tell_changes(study: Study, console: Console, pause_s: float) -> None:
    """Print the table, then the totals and what has changed, whenever a run's state has."""
    known: dict[str, tuple[object, ...]] = {}
    over = False
    while not over:
        began = time.monotonic()
        snapshot = study.look(PATIENCE_S)
        states = {view.name: _state_of(view) for view in snapshot.views}
        if not known:
            _print(snapshot, console)
        elif states != known:
            changed = [view for view in snapshot.views if states[view.name] != known.get(view.name)]
            for line in headings(snapshot):
                console.print(line)
            console.print(rows(changed, Layout(grouped=False)))
        known = states
        over = _sleep(study, snapshot, began, pause_s)


def _sleep(study: Study, snapshot: Snapshot, began: float, pause_s: float) -> bool:
    """Wait until the next look; true when there is nothing more to wait for.

    A job that has lost its node may pass for ended on its way back into the queue, so it is looked
    at twice.
    """
    time.sleep(max(pause_s, EASE * (time.monotonic() - began)))
    return snapshot.ended and study.look(PATIENCE_S).ended


def _state_of(view: RunView) -> tuple[object, ...]:
    return view.state, view.job, view.reason, view.progress.silent_s is None


def _print(snapshot: Snapshot, console: Console) -> None:
    console.print(render(snapshot, Layout(grouped=console.is_terminal)))
