"""Commands for what runs left: tables, the report, its numbers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from argosy.cli.output import say
from argosy.errors import ArgosyError, plain

results = typer.Typer()
_SUMMARY_BYTES = 256 << 20


@results.command()
def tables(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="results/<site>")],
    runs: Annotated[
        Path | None,
        typer.Option(help="The folders of the runs to be in the tables, one on each line (all)."),
    ] = None,
) -> None:
    """Bring the Parquet tables in RESULTS/tables up to date; only new runs are read."""
    from argosy.files import read_paths
    from argosy.results import collect

    collect(folder, folder / "tables", read_paths(runs) if runs else None, say)


@results.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="results/<site>")],
    from_tables: Annotated[
        bool, typer.Option("--from-tables", help="Take RESULTS/tables as they are.")
    ] = False,
    costs: Annotated[
        Path | None, typer.Option(help="Prices and carbon, such as slurm/<site>/costs.yaml.")
    ] = None,
) -> None:
    """Write report.html, summary.json and summary.csv of all runs in RESULTS."""
    from argosy.report import Rates, write_report
    from argosy.results import collect

    rates = Rates()
    if costs:
        from argosy.site.costs import read_costs

        rates = Rates(**read_costs(costs).model_dump())
    if not from_tables:
        collect(folder, folder / "tables", say=say)
    written = write_report(folder, rates)
    say(f"wrote {written.html}")


@results.command()
def summary(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="results/<site>")],
) -> None:
    """Print the report's main numbers and where the report is."""
    from rich.console import Console

    from argosy.report.terminal import print_summary

    content = _summary_of(folder)
    console = Console(highlight=False)
    print_summary(content, console)
    console.print(f"Report: {(folder / 'report.html').absolute()}", soft_wrap=True)


@results.command()
def figures(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="results/<site>")],
    output: Annotated[Path | None, typer.Argument(help="A folder (RESULTS/figures).")] = None,
) -> None:
    """Write a report's charts as SVG and PDF, and its tables as LaTeX and CSV, for a paper."""
    from argosy.report.paper.paper import write_paper
    from argosy.report.summary.models import read_summary

    for file in write_paper(read_summary(_summary_of(folder)), output or folder / "figures"):
        print(file)


@results.command()
def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RESULTS RESULTS…", help="results/<site>, two or more.")
    ],
    output: Annotated[Path, typer.Option(help="The page.")] = Path("comparison.html"),
) -> None:
    """Write a page with the same experiments at several sites, held against the first of them."""
    from argosy.report import write_comparison
    from argosy.report.summary.models import Summary, read_summary

    if len(folders) < 2:
        raise ArgosyError("give the results of two sites or more, such as results/a results/b")
    summaries: dict[str, Summary] = {}
    for folder in folders:
        summary = read_summary(_summary_of(folder))
        name = ", ".join(summary.sites) or folder.name
        if name in summaries:
            raise ArgosyError(f"{folder}: these are results of {name} again", "give other sites'")
        summaries[name] = summary
    write_comparison(summaries, output)
    print(output)


@results.command()
def bundle(
    file: Annotated[Path, typer.Argument(help="The archive to write, such as study.zip.")],
    sites: Annotated[
        list[str] | None, typer.Argument(metavar="[SITE…]", help="Folders of results/ (all).")
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
    """Write a study into one archive: configuration, images, programs, sites, results and report.

    It is a Provenance Run Crate in a ZIP file. A file that holds what looks like a secret is refused.
    """
    from argosy.bundle.bundling import Request, write_bundle

    request = Request(
        project=Path.cwd(),
        sites=tuple(sites or ()),
        excluded=tuple(exclude or ()),
        with_images=images,
        with_environment=environment,
        is_redacted=redact,
        license=license,
    )
    for line in write_bundle(request, file, say):
        print(plain(line))


@results.command()
def unbundle(
    file: Annotated[Path, typer.Argument(help="A bundle.")],
    folder: Annotated[Path, typer.Argument(help="The project's folder, which is made.")],
) -> None:
    """Unpack a bundle into FOLDER and its images into the store there, without any download.

    Nothing in the bundle is run. It holds programs, though: those that snakemake starts afterwards.
    """
    from argosy.bundle.unbundling import unbundle as unpack

    for line in unpack(file, folder, say):
        print(plain(line))


def _summary_of(folder: Path) -> Any:
    from argosy.errors import plain_texts
    from argosy.reading import NotReadError, read_object
    from argosy.report.summary.models import SUMMARY_VERSION

    path = folder / "summary.json"
    try:
        content = read_object(path, folder, _SUMMARY_BYTES)
        version = content["schema_version"]
    except FileNotFoundError:
        raise ArgosyError(
            f"{path}: there is no report yet", f"run: argosy report {folder}"
        ) from None
    except (OSError, ValueError, KeyError) as problem:
        why = problem.strerror if isinstance(problem, NotReadError) else "is damaged"
        raise ArgosyError(f"{path}: {why}", f"run: argosy report {folder}") from None
    if version != SUMMARY_VERSION:
        raise ArgosyError(
            f"{path}: its schema_version is {version}, this Argosy reads {SUMMARY_VERSION}",
            f"run: argosy report {folder}",
        )
    return plain_texts(content)
