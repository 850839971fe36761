"""The command line: thin commands over the rooms, and errors in one line.

The rooms are imported where they are used: a command should not wait for libraries it has no use for.
"""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import typer

from argosy.cli.images import images
from argosy.cli.output import say
from argosy.cli.predict import predictions
from argosy.cli.results import results
from argosy.cli.runs import runs
from argosy.cli.sites import doctor, sites
from argosy.errors import ArgosyError, explained, is_of_the_surroundings, plain

app = typer.Typer(
    name="argosy",
    help="One experiment, many clusters: images without root, batch scripts, runs, reports.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def setup() -> None:
    """Make the container tools available in this project."""
    from argosy.images.store.store import Store
    from argosy.images.tools import ensure_udocker, fetch_proot

    store = Store.of_project(Path.cwd())
    # What a bundle has brought (docs/carrying.md).
    bundled = Path("container-tools.tar.gz").absolute()
    ensure_udocker(store, say, bundled if bundled.is_file() else None)
    fetch_proot(store, say)


app.add_typer(images, name="image")
app.add_typer(sites, name="site")
app.command()(doctor)
app.add_typer(runs)
app.add_typer(results)
app.add_typer(predictions)


def main() -> None:
    """Run the command line; a user's mistake is a line, its hint, and exit status 2."""
    # A thread for each core of a login node would cost more time than these few numbers take.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app()
    except SystemExit as end:
        if end.code == 0 and threading.active_count() == 1:
            # Where the output goes nowhere, Python's own end says so.
            with suppress(OSError):
                _end_at_once()
        raise
    except ArgosyError as problem:
        _leave(problem.lines)
    except OSError as problem:
        if not is_of_the_surroundings(problem):
            raise
        _leave(explained(problem))


def _end_at_once() -> NoReturn:
    """End without taking all modules apart first, which takes longer than many a command."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _leave(message: str) -> NoReturn:
    print(f"error: {plain(message)}", file=sys.stderr)
    sys.exit(2)
