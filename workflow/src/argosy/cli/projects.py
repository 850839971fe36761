"""`argosy init`: creates a project from a command or a batch script."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.cli.output import say, show
from argosy.shipped.new_project import CONFIG, config_text, first_experiment, write_project
from argosy.shipped.program import OWN_IMAGES, Program
from argosy.site.models import LOCAL
from argosy.terminal import Listing
from argosy_common.errors import ArgosyError

PACKAGES = "requirements.txt"
"""A package list to add to the image of a new experiment."""

if TYPE_CHECKING:
    from argosy.probe.probing import Probe
    from argosy.schedulers.slurm.user_script.lines import Note


def init_by_command(command: str, image: str | None, site: str | None, account: str | None) -> None:
    """Turn the current folder into a project for a command; `site`: probe this login node's cluster."""
    probe = None if site is None else _probe_of(site, account)
    name, experiment = experiment_of(Program.of_text(Path.cwd(), command), command, image)
    if experiment["launcher"] != "plain" and experiment["scale"]["nodes"] == [1]:
        experiment["scale"]["nodes"] = [1, 2]
    text = config_text({name: experiment}, "--command")
    _print_written(write_project(Path.cwd(), {CONFIG: text}))
    if probe:
        _write_probed(probe)
    how = "snakemake" if site in (None, LOCAL) else f"snakemake --profile slurm/{site}"
    say(f"next: check {CONFIG}, then run: {how} -n; {how}")


def _probe_of(site: str, account: str | None) -> "Probe | None":
    """Return the probe that writes a site's folder; None for `local` or an existing site."""
    from argosy.cli.sites import DEFAULT_WAIT
    from argosy.probe.probing import Probe, cluster_here
    from argosy_common.units import span

    if site == LOCAL or Path("slurm", site, "site.yaml").is_file():
        if account:
            file = f"slurm/{site}/site.yaml"
            raise ArgosyError(f"--account: {site} is not probed", f"write account into {file}")
        return None
    probe = Probe(Path.cwd(), site, account, span("--wait", DEFAULT_WAIT))
    probe.check()
    try:
        cluster_here()
    except ArgosyError as problem:
        raise ArgosyError(
            f"--site {site}: {problem.problem}",
            "run this on a login node of the cluster; or omit --site, and copy a cluster that comes "
            "with Argosy: argosy site add NAME (docs/sites.md)",
        ) from None
    return probe


def _write_probed(probe: "Probe") -> None:
    from argosy.cli.sites import write_site

    try:
        write_site(probe)
    except BaseException:
        if not probe.folder.exists():
            option = f" --account {shlex.quote(probe.account)}" if probe.account else ""
            say(
                f"the other files are written; continue with: argosy site probe {probe.name}{option}"
            )
        raise


def experiment_of(
    program: Program, command: str, image: str | None, *, native: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return name and keys of the experiment for a command; a launcher in it is converted to keys.

    Args:
        program: the command's words.
        command: the command's text.
        image: image of the program; None: the command's own, or one of Argosy.
        native: whether to run it without a container.

    Raises:
        ArgosyError: naming a variable or operator that only a shell would handle, or a missing script.
    """
    from argosy.jobs.program_check import check_script
    from argosy.results.hidden_values import SECRET_NAME
    from argosy.schedulers.slurm.user_script.conversion import convert_launch
    from argosy.study.shell_words import remedy, unfilled
    from argosy.study.values import words as split

    name, keys = program.name, first_experiment(program, None if native else image or program.image)
    if found := convert_launch(command, program.project, image, SECRET_NAME):
        name, keys = found.name, {**found.experiment}
        for each in found.left:
            say(f"not taken: {each.text}: {each.said}")
        if native:
            keys.pop("image", None)
            keys = {"runtime": "native", **keys}
    else:
        try:
            split(command)
        except ValueError as problem:
            raise ArgosyError(f"command: {problem}") from None
    words = shlex.split(keys["command"])
    if variable := unfilled(words, {}):
        raise ArgosyError(f"command: {variable}: nothing fills this in", remedy(variable))
    if not image:
        check_script(program.project, words)
    _add_packages(program.project, keys, image)
    return name, keys


def _add_packages(project: Path, experiment: dict[str, Any], image: str | None) -> None:
    """Add the project's requirements.txt to Argosy's image, unless the user gave an image."""
    own = experiment.get("image")
    if image is None and own in OWN_IMAGES and (project / PACKAGES).is_file():
        experiment["image"] = {"from": own, "python": PACKAGES}
        say(f"image: {own} with {PACKAGES}; without it: --image {own}")


def init_by_script(script: Path, site: str, image: str | None) -> None:
    """Turn the current folder into a project for a batch script."""
    from argosy.results.hidden_values import SECRET_NAME
    from argosy.schedulers.slurm.user_script.conversion import convert

    found = convert(script, Path.cwd(), site, image, SECRET_NAME)
    experiment = {**found.experiment}
    _add_packages(Path.cwd(), experiment, image)
    text = config_text({found.name: experiment}, str(script))
    written = write_project(Path.cwd(), {CONFIG: text, **found.site_files})
    show(_listing("became", found.taken))
    if found.left:
        show("\nNot taken:", _listing("why, and what to do", found.left))
    print()
    _print_written(written)
    file = f"slurm/{site}/site.yaml"
    lacks = "" if "\ninterface:" in found.site_files[file] else f"write `interface` into {file}, "
    say(f"next: {lacks}check {file} and {CONFIG}, then run: snakemake --profile slurm/{site} -n")


def _listing(heading: str, notes: "Sequence[Note]") -> Listing:
    rows = [(each.line, each.text, each.said) for each in notes]
    return Listing(("line", "taken" if heading == "became" else "not taken", heading), rows)


def _print_written(names: Sequence[str]) -> None:
    for name in names:
        print(f"wrote {name}")
    if not names:
        say("nothing to write: all files exist")
