"""Commands for what runs left: tables, the report, its numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from argosy.cli.commands import CostsOption, SiteArgument
from argosy.cli.output import say
from argosy.errors import ArgosyError, plain

if TYPE_CHECKING:
    from argosy.report.summary.models import Summary

_SUMMARY_BYTES = 256 << 20


def tables(
    site: SiteArgument = None,
    runs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Which runs to take, a folder on each line (all)."),
    ] = None,
) -> None:
    """Bring the Parquet tables of a site's results up to date; only new runs are read."""
    from argosy.cli.site_names import results_of
    from argosy.files import read_paths
    from argosy.results import collect

    folder = results_of(site)
    collect(folder, folder / "tables", read_paths(runs) if runs else None, say)


def report(
    site: SiteArgument = None,
    from_tables: Annotated[
        bool, typer.Option("--from-tables", help="Take the tables as they are.")
    ] = False,
    costs: CostsOption = None,
) -> None:
    """Write report.html, summary.json and summary.csv of all runs of a site."""
    import duckdb

    from argosy.cli.site_names import results_of
    from argosy.report import Rates, write_report
    from argosy.results import collect

    folder = results_of(site)
    rates = Rates()
    if costs:
        from argosy.site.costs import read_costs

        rates = Rates(**read_costs(costs).model_dump())
    tables = folder / "tables"
    if not from_tables:
        collect(folder, tables, say=say)
    try:
        written = write_report(folder, rates)
    except duckdb.Error as problem:
        damage = f"{tables}: a table is damaged ({str(problem).splitlines()[0]})"
        if from_tables:
            raise ArgosyError(damage, f"make the tables again: argosy report {folder}") from None
        say(f"{damage}: the tables are made again from the run folders")
        collect(folder, tables, say=say, anew=True)
        written = write_report(folder, rates)
    say(f"wrote {written.html}")


def summary(
    site: SiteArgument = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print summary.json (docs/summary.schema.json).")
    ] = False,
) -> None:
    """Print the report's main numbers and where the report is."""
    from argosy.cli.output import show_json
    from argosy.cli.site_names import results_of
    from argosy.report.terminal import print_summary
    from argosy.terminal import make_console

    folder = results_of(site)
    content, _ = _summary_of(folder)
    if json:
        return show_json(content)
    console = make_console()
    print_summary(content, console)
    console.print(f"Report: {(folder / 'report.html').absolute()}", soft_wrap=True)
    return None


def figures(
    site: SiteArgument = None,
    output: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Where to (results/SITE/figures).")
    ] = None,
) -> None:
    """Write a report's charts as SVG and PDF, and its tables as LaTeX and CSV."""
    from argosy.cli.site_names import results_of
    from argosy.report.paper.paper import write_paper

    folder = results_of(site)
    _, found = _summary_of(folder)
    for file in write_paper(found, output or folder / "figures"):
        print(plain(str(file)))


def compare(
    sites: Annotated[
        list[str],
        typer.Argument(metavar="SITE", help="Two sites or more, by name or folder of results."),
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path(
        "comparison.html"
    ),
) -> None:
    """Write a page that compares the same experiments at several sites with the first."""
    from argosy.cli.site_names import results_of
    from argosy.report import write_comparison
    from argosy.report.summary.models import Summary

    if len(sites) < 2:
        raise ArgosyError("argosy compare: one site is given", "give two or more")
    summaries: dict[str, Summary] = {}
    for folder in map(results_of, sites):
        _, summary = _summary_of(folder)
        name = ", ".join(summary.sites) or folder.name
        if name in summaries:
            raise ArgosyError(f"{folder}: these are results of {name} again", "give other sites'")
        summaries[name] = summary
    write_comparison(summaries, output)
    print(plain(str(output)))


def bundle(
    file: Annotated[Path, typer.Argument(help="The archive to write, such as study.zip.")],
    sites: Annotated[
        list[str] | None,
        typer.Argument(metavar="SITE", help="Sites, by name or folder (all that have results)."),
    ] = None,
    *,
    images: Annotated[bool, typer.Option(help="Take images along, or their digests alone.")] = True,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment", help="Add what sets Argosy up on such a machine without internet."
        ),
    ] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(help="What stays behind, as in .gitignore; several times.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Replace names of users, hosts, accounts and folders.")
    ] = False,
    license: Annotated[
        str | None,
        typer.Option(help="An address of the licence under which the study may be used."),
    ] = None,
) -> None:
    """Write a study into one archive: configuration, images, programs, sites, results, report.

    It is a Provenance Run Crate in a ZIP file. A file that holds what looks like a secret is refused.
    """
    from argosy.bundle.bundling import Request, write_bundle
    from argosy.cli.site_names import require_project, results_of

    require_project()
    request = Request(
        project=Path.cwd(),
        sites=tuple(results_of(each).name for each in sites or ()),
        excluded=tuple(exclude or ()),
        with_images=images,
        with_environment=environment,
        is_redacted=redact,
        license=license,
    )
    for line in write_bundle(request, file, say):
        print(plain(line))


def unbundle(
    file: Annotated[Path, typer.Argument(help="A bundle.")],
    folder: Annotated[Path, typer.Argument(help="The project's folder, which is made.")],
) -> None:
    """Unpack a bundle into a new FOLDER, with its images, without any download.

    Nothing in the bundle is run. It holds programs, though: those that snakemake starts afterwards.
    """
    from argosy.bundle.unbundling import unbundle as unpack

    for line in unpack(file, folder, say):
        print(plain(line))


def _summary_of(folder: Path) -> "tuple[dict[str, Any], Summary]":
    """Return the content of a summary.json, and the summary; raises ArgosyError."""
    from pydantic import ValidationError

    from argosy.errors import plain_texts
    from argosy.reading import NotReadError, read_object
    from argosy.report.summary.models import SUMMARY_VERSION, read_summary

    path, again = folder / "summary.json", f"run: argosy report {folder}"
    try:
        content = plain_texts(read_object(path, folder, _SUMMARY_BYTES))
        version = content["schema_version"]
        if version != SUMMARY_VERSION:
            raise ArgosyError(
                f"{path}: its schema_version is {version}, this Argosy reads {SUMMARY_VERSION}",
                again,
            )
        return content, read_summary(content)
    except FileNotFoundError:
        raise ArgosyError(f"{path}: there is no report yet", again) from None
    except NotReadError as problem:
        raise ArgosyError(f"{path}: {problem.strerror}", again) from None
    except PermissionError:
        raise
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ArgosyError(f"{path}: is damaged: {key}: {first['msg']}", again) from None
    except (OSError, ValueError, KeyError):
        raise ArgosyError(f"{path}: is damaged", again) from None
