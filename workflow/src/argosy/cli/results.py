"""Commands for results: tables, the report, its numbers, predictions."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from argosy.cli.commands import CostsOption, JsonOption, SiteArgument
from argosy.cli.output import say, show
from argosy_common.errors import ArgosyError, plain, some

if TYPE_CHECKING:
    from argosy.report import Rates
    from argosy.report.summary.models import Summary


def tables(
    site: SiteArgument = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File of run folders to read, one a line (default: all)."
        ),
    ] = None,
) -> None:
    """Update the Parquet tables of a site's results; read only new runs."""
    from argosy.cli.site_names import results_of
    from argosy.monitor.sites import not_planned, run_folders
    from argosy.results import collect
    from argosy_common.files import read_paths

    folder = results_of(site)
    asked = read_paths(runs) if runs else None
    collect(folder, folder / "tables", asked, say)
    if asked is not None:
        planned = {path.absolute() for path in asked}
        others = sum(path.absolute() not in planned for path in run_folders(folder))
        if others:
            say(f"{not_planned(others)}; to include all: argosy report {folder}")


def report(
    site: SiteArgument = None,
    from_tables: Annotated[
        bool, typer.Option("--from-tables", help="Use the tables as they are.")
    ] = False,
    costs: CostsOption = None,
) -> None:
    """Write report.html, summary.json and summary.csv of all runs of a site."""
    import duckdb

    from argosy.cli.site_names import results_of
    from argosy.report import write_report
    from argosy.results import collect

    folder = results_of(site)
    rates = _rates(costs, folder)
    tables = folder / "tables"
    if not from_tables:
        collect(folder, tables, say=say)
    try:
        written = write_report(folder, rates)
    except duckdb.Error as problem:
        raise ArgosyError(
            f"{tables}: a table is damaged ({str(problem).splitlines()[0]})",
            f"rebuild the tables: argosy report {folder}",
        ) from None
    for line in written.left_out:
        say(line)
    say(f"wrote {written.html}")


def summary(
    site: SiteArgument = None,
    json: JsonOption = False,
) -> None:
    """Print the report's main numbers and its path."""
    from argosy.cli.output import show_json
    from argosy.cli.site_names import results_of
    from argosy.report.outputs.terminal import print_summary
    from argosy.terminal import make_console

    folder = results_of(site)
    content, _ = _newest_report(folder)
    if json:
        return show_json(content)
    console = make_console()
    print_summary(content, console)
    console.print(f"Report: {(folder / 'report.html').absolute()}", soft_wrap=True)
    return None


def figures(
    site: SiteArgument = None,
    output: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="Folder to write (results/SITE/figures)."),
    ] = None,
) -> None:
    """Write a report's charts as SVG and PDF, and its tables as LaTeX and CSV."""
    from argosy.cli.site_names import results_of
    from argosy.report.outputs.paper import write_paper
    from argosy_common.reading import entries

    folder = results_of(site)
    _, found = _newest_report(folder)
    target = output or folder / "figures"
    written = write_paper(found, target)
    for file in written:
        print(plain(str(file)))
    names = {file.name for file in written}
    if old := sorted(each.name for each in entries(target, target) if each.name not in names):
        say(plain(f"{target}: not of this report, and left there: {some(old)}"))


def badge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SVG file to write.")],
    site: SiteArgument = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Experiment to show (default: the only one).")
    ] = None,
) -> None:
    """Write a badge (SVG) of an experiment: the advised size, its efficiency, or a loss of speed."""
    from argosy.cli.site_names import results_of
    from argosy.report.outputs.badge import badge_of
    from argosy_common.files import write_text

    _, found = _newest_report(results_of(site))
    write_text(file, badge_of(found, experiment))
    print(plain(str(file)))


def compare(
    sites: Annotated[
        list[str],
        typer.Argument(
            metavar="SITE",
            help="Two or more sites, by name or results folder; SITE@WORD: the newest report of "
            "a commit, image or date.",
        ),
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="Page to write.")] = Path(
        "comparison.html"
    ),
) -> None:
    """Compare several sites, or one site over time, in a page; the first is the reference."""
    from argosy.report import write_comparison
    from argosy.report.summary.models import Summary

    if len(sites) < 2:
        raise ArgosyError("argosy compare: only one site is given", "give two or more")
    summaries: dict[str, Summary] = {}
    given: set[tuple[Path, str]] = set()
    for site in sites:
        name, report, summary = _reported(site)
        if report in given:
            raise ArgosyError(
                f"{site}: the results of {name} are already given", "name another site"
            )
        given.add(report)
        # Other projects may have a site of this name.
        summaries[f"{name} ({report[0]})" if name in summaries else name] = summary
    write_comparison(summaries, output)
    print(plain(str(output)))


def _reported(site: str) -> "tuple[str, tuple[Path, str], Summary]":
    """Return the name, the identity and the report of a site or of `SITE@WORD`, for a comparison."""
    from argosy.cli.site_names import results_of
    from argosy.report.kept_reports import report_called

    name, is_of, word = site.rpartition("@")
    if is_of and not Path(site).is_dir():
        folder = results_of(name or None)
        summary = report_called(folder, word)
    else:
        folder, word = results_of(site), ""
        _, summary = _newest_report(folder)
    there = ", ".join(summary.sites) or folder.name
    return (f"{there}@{word}" if word else there), (folder.resolve(), word), summary


def _newest_report(folder: Path) -> "tuple[dict[str, Any], Summary]":
    """Read a site's report as JSON and as a Summary, and say how many runs have newer results."""
    from argosy.monitor.sites import has_result_since, run_folders
    from argosy.report.kept_reports import SUMMARY, read_report
    from argosy.terminal import plural

    found = read_report(folder)
    made = (folder / SUMMARY).stat().st_mtime
    if newer := sum(has_result_since(run, made) for run in run_folders(folder)):
        say(
            f"not in this report: {plural(newer, 'run')} completed after it; to include all: "
            f"argosy report {folder}"
        )
    return found


def bundle(
    file: Annotated[Path, typer.Argument(help="Archive to write, such as study.zip.")],
    sites: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SITE", help="Sites, by name or folder (default: all with results)."
        ),
    ] = None,
    *,
    images: Annotated[bool, typer.Option(help="Include images, or only their digests.")] = True,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment",
            help="Include Argosy's packages and tools for an offline machine of this kind.",
        ),
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Files to leave out, as in .gitignore; may be repeated."),
    ] = None,
    license: Annotated[str | None, typer.Option(help="Address of the study's licence.")] = None,
) -> None:
    """Write a study into one archive: configuration, images, programs, sites, results, report.

    It is a Provenance Run Crate in a ZIP file. Files with likely secrets are refused.
    """
    from argosy.bundle.bundling import Request, write_bundle
    from argosy.cli.site_names import require_project, results_of

    require_project()
    request = Request(
        project=Path.cwd(),
        sites=tuple(_own_site(results_of(each)) for each in sites or ()),
        excluded=tuple(exclude or ()),
        with_images=images,
        with_environment=environment,
        license=license,
    )
    for line in write_bundle(request, file, say):
        print(plain(line))


def _own_site(folder: Path) -> str:
    """Return the name of a site of this project; raises ArgosyError for results of another project."""
    if folder.resolve() != Path("results", folder.name).resolve():
        raise ArgosyError(
            f"{folder}: these results are of another project", "run argosy bundle in its folder"
        )
    return folder.name


def unbundle(
    file: Annotated[Path, typer.Argument(help="Bundle to unpack.")],
    folder: Annotated[Path, typer.Argument(help="Folder to create for the project.")],
) -> None:
    """Unpack a bundle into a new FOLDER, with its images, without any download.

    Nothing in the bundle is run. Later snakemake commands do run its programs.
    """
    from argosy.bundle.unbundling import unbundle as unpack

    for line in unpack(file, folder, say):
        print(plain(line))


def predict(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SITE] EXPERIMENT",
            help="Experiment to predict, after its site if there are several.",
        ),
    ],
    *,
    collectives: Annotated[
        str | None,
        typer.Option(help="Experiment of the allreduce benchmark, if there are several."),
    ] = None,
    efficiency: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Minimum efficiency relative to one node.")
    ] = 0.8,
    node_hours: Annotated[
        float | None, typer.Option(min=0.0, help="Budget for the whole training.")
    ] = None,
    samples: Annotated[
        float,
        typer.Option(min=1.0, max=1e18, help="Samples of the whole training, over all epochs."),
    ] = 1e6,
    nodes: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Node counts in the table (default: powers of two)."),
    ] = None,
    costs: CostsOption = None,
) -> None:
    """Predict training speed on unmeasured node counts, and advise how many nodes to use."""
    from argosy.cli.site_names import results_of
    from argosy.report.outputs.terminal import prediction_table as table
    from argosy.report.topics.prediction.answers import Question
    from argosy.report.topics.prediction.predicted import predicted
    from argosy.report.topics.prediction.says import sentences

    if len(words) > 2:
        raise ArgosyError("argosy predict: give SITE and EXPERIMENT", "see: argosy predict --help")
    experiment = words[-1]
    question = Question(_numbers(nodes) if nodes else (), samples, efficiency, node_hours)
    folder = results_of(words[0] if len(words) == 2 else None)
    rates = _rates(costs, folder)
    with _newest_tables(folder) as tables:
        found = predicted(tables, experiment, question, rates, collectives)
    show(table(experiment, found, rates.currency), *sentences(found))


def _rates(costs: Path | None, folder: Path) -> "Rates":
    """Return the prices and carbon in `costs`, by default in the costs.yaml of the results' project."""
    from argosy.report import Rates
    from argosy.site.costs import read_costs

    own = folder.absolute().parent.parent / "slurm" / folder.name / "costs.yaml"
    path = costs or (own if own.is_file() else None)
    return Rates(**read_costs(path).model_dump()) if path else Rates()


@contextmanager
def _newest_tables(folder: Path) -> Iterator[Path]:
    """Yield a site's tables, up to date; temporary ones of results that this user may only read."""
    from argosy.results import collect

    tables = folder / "tables"
    try:
        collect(folder, tables, say=say)
    except OSError as problem:
        if problem.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        with TemporaryDirectory(prefix="argosy-tables-") as work:
            say(plain(f"{tables}: may not be written; using temporary tables"))
            collect(folder, Path(work))
            yield Path(work)
        return
    yield tables


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 8 and int(part) > 0 for part in numbers):
        raise ArgosyError(
            f"--nodes {text}: give node counts below ten million, separated by commas, such as 1,2,4"
        )
    return tuple(map(int, numbers))
