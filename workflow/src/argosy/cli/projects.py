"""New projects: `argosy init` makes the files of one by a command or by a batch script."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.cli.output import say, show
from argosy.shipped.new_project import (
    CONFIG,
    DEFAULT_IMAGE,
    config_text,
    first_experiment,
    write_project,
)
from argosy.shipped.program import Program
from argosy.terminal import Listing

if TYPE_CHECKING:
    from argosy.schedulers.slurm.user_script.lines import Note


def init_by_command(command: str, image: str | None) -> None:
    """Make a project of the current folder for a command."""
    program = Program.of_text(Path.cwd(), command)
    text = config_text(
        {program.name: first_experiment(program, image or DEFAULT_IMAGE)}, "--command"
    )
    _print_written(write_project(Path.cwd(), {CONFIG: text}))
    say(f"next: look at {CONFIG}, then run: snakemake -n; snakemake")


def init_by_script(script: Path, site: str, image: str | None) -> None:
    """Make a project of the current folder for a batch script."""
    from argosy.results.hidden_values import SECRET_NAME
    from argosy.schedulers.slurm.user_script.conversion import convert

    found = convert(script, Path.cwd(), site, image, SECRET_NAME)
    text = config_text({found.name: found.experiment}, str(script))
    written = write_project(Path.cwd(), {CONFIG: text, **found.site_files})
    show(_listing("became", found.taken))
    if found.left:
        show("\nNot taken:", _listing("why, and what to do", found.left))
    print()
    _print_written(written)
    file = f"slurm/{site}/site.yaml"
    lacks = "" if "\ninterface:" in found.site_files[file] else f"write `interface` into {file}, "
    say(f"next: {lacks}look at it and at {CONFIG}, then run: snakemake --profile slurm/{site} -n")


def _listing(heading: str, notes: "Sequence[Note]") -> Listing:
    rows = [(each.line, each.text, each.said) for each in notes]
    return Listing(("line", "taken" if heading == "became" else "not taken", heading), rows)


def _print_written(names: Sequence[str]) -> None:
    for name in names:
        print(f"wrote {name}")
    if not names:
        say("nothing to write: all files are there")
