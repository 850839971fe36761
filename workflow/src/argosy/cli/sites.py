"""Commands for sites: probing a cluster, and checking its folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from argosy.cli.commands import CLUSTERS, Commands, JsonOption, SiteArgument

if TYPE_CHECKING:
    from argosy.probe.probing import Probe

DEFAULT_WAIT = "90s"
_WAIT_HELP = "How long the jobs may take, including the queue, such as 90s or 2h."
sites = Commands(help="List, show and probe the clusters of this project.")


def list_sites(
    json: JsonOption = False,
) -> None:
    """List this project's sites: operator, GPUs and the keys to fill in."""
    from dataclasses import asdict

    from argosy.cli.output import show, show_json
    from argosy.cli.site_names import SLURM, require_project
    from argosy.site.overview import overview
    from argosy.terminal import Listing, shortened

    require_project()
    found = overview(SLURM)
    if json:
        return show_json({"schema_version": 1, "sites": [asdict(each) for each in found]})
    rows = [
        (each.name, shortened(each.operator, 20), shortened(each.devices, 22), each.lacks)
        for each in found
    ]
    return show(
        Listing(("site", "operator", "GPUs", "to fill in"), rows),
        "\ndetails of a site: argosy site show SITE",
    )


def show_site(site: SiteArgument = None) -> None:
    """Show a site: its nodes, the sources of its file, and the address of its help desk."""
    from argosy.cli.output import show
    from argosy.cli.site_names import SLURM, site_called
    from argosy.site.overview import of_site
    from argosy.terminal import Listing

    found = of_site(SLURM, site_called(site))
    rows = [
        ("operator", found.operator),
        *(("nodes", kind) for kind in found.nodes.split("; ")),
        ("interface", found.interface),
        ("to fill in", found.lacks),
        ("written from", found.checked and f"sources of {found.checked}"),
        ("tried", found.tried or "no"),
        ("contact", found.contact),
        ("file", f"slurm/{found.name}/site.yaml"),
    ]
    shown = [row for row in rows if row[1]]
    show(Listing(("site", found.name), shown))


def here() -> None:
    """Print the site of this machine's cluster."""
    from argosy.cli.site_names import require_project
    from argosy.probe.probing import find_here

    require_project()
    print(find_here(Path.cwd()))


def doctor(
    site: SiteArgument = None,
    job: Annotated[bool, typer.Option(help="Check nodes with small jobs.")] = True,
    wait: Annotated[str, typer.Option(help=_WAIT_HELP)] = DEFAULT_WAIT,
    train: Annotated[
        bool, typer.Option("--train", help="Also train on two nodes, for 2 more minutes.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check a site: its folder, the limits of its cluster, and its nodes.

    Each check prints a verdict, the evidence and a remedy. The exit status is 1 if a check
    failed.
    """
    from argosy.cli.output import say
    from argosy.cli.site_names import site_called
    from argosy.doctor.examination import Examination
    from argosy.doctor.findings import print_findings
    from argosy_common.units import span

    wait_s = span("--wait", wait) if job else None
    findings = Examination(Path.cwd(), site_called(site), wait_s, say, trains=train).findings()
    raise typer.Exit(1 if print_findings(findings, as_json=json) else 0)


def probe(
    name: Annotated[str, typer.Argument(help="Name of the new site and its folder in slurm/.")],
    account: Annotated[
        str | None, typer.Option(help="Account to charge, if you have several.")
    ] = None,
    job: Annotated[bool, typer.Option(help="Check each kind of node with a small job.")] = True,
    wait: Annotated[str, typer.Option(help=_WAIT_HELP)] = DEFAULT_WAIT,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Write nothing; list differences between slurm/NAME and the cluster."
        ),
    ] = False,
) -> None:
    """Probe this login node's cluster, and write slurm/NAME/.

    Probe queries nodes, partitions, accounts and limits. A job of two minutes for each kind of node
    measures interfaces and folders. With --again the exit status is 1 if something differs.
    """
    from argosy.cli.site_names import allow_new_project, require_project
    from argosy.probe.probing import Probe
    from argosy_common.units import span

    (require_project if again else allow_new_project)()
    found = Probe(Path.cwd(), name, account, span("--wait", wait) if job else None)
    if again:
        differences = found.drift()
        for each in differences:
            print(each)
        raise typer.Exit(1 if differences else 0)
    write_site(found)


def write_site(found: "Probe") -> None:
    """Probe the cluster, write the site's folder, and print the findings."""
    from argosy.doctor.findings import print_finding
    from argosy.doctor.queue_checks import check_places

    for line in found.write():
        print(line)
    placed, _ = check_places(found.project, found.name)
    print_finding(placed)


def add(
    name: Annotated[str, typer.Argument(help="A cluster that comes with Argosy (docs/sites.md).")],
) -> None:
    """Copy a cluster that comes with Argosy into slurm/, to change it."""
    from argosy.cli.site_names import allow_new_project
    from argosy.shipped.new_project import add_site

    allow_new_project()
    print(*(f"wrote {path}" for path in add_site(Path.cwd(), name)), sep="\n")


for function, name in (
    (list_sites, "list"),
    (add, "add"),
    (show_site, "show"),
    (here, "here"),
    (probe, "probe"),
):
    sites.add(function, CLUSTERS, name)
