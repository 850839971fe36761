"""ro-crate-metadata.json: the study as a Provenance Run Crate, https://w3id.org/ro/wfrun/provenance/0.5.

These profiles extend RO-Crate 1.1. Each attempt of a run is an action. Run folders are described as a
whole; single files only if readers look for them. A file of the bundle holds the checksums.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from argosy.bundle.actions import (
    COMPLETED,
    BundledRun,
    Entity,
    entity,
    image_id,
    moment,
    of_attempt,
    program_id,
    reference,
    step_id,
)
from argosy.bundle.archive import BundleDescription

_WFRUN = "https://w3id.org/ro/wfrun"
_WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
PROFILES = {
    f"{_WFRUN}/process/0.5": ("Process Run Crate", "0.5"),
    f"{_WFRUN}/workflow/0.5": ("Workflow Run Crate", "0.5"),
    f"{_WFRUN}/provenance/0.5": ("Provenance Run Crate", "0.5"),
    _WORKFLOW_CRATE: ("Workflow RO-Crate", "1.0"),
}
# The terms used of https://w3id.org/ro/terms/workflow-run.
_TERMS = {
    name: f"https://w3id.org/ro/terms/workflow-run#{name}"
    for name in (
        *("containerImage", "ContainerImage", "registry", "resourceUsage", "sha256", "tag"),
    )
}
_COMPUTATIONAL_WORKFLOW = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
_FORMAL = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
_WORKFLOW, _CONFIG = "Snakefile", "config/config.yaml"
_REPORT, _README = "report.html", "README.md"


@dataclass(frozen=True)
class Study:
    """The content of the crate.

    Args:
        files: names of the bundle's files.
        snakemake: version of Snakemake.
        license: address of the licence; None if not stated.
    """

    description: BundleDescription
    runs: Sequence[BundledRun]
    files: Collection[str]
    snakemake: str
    license: str | None

    @cached_property
    def experiments(self) -> dict[tuple[str, str], BundledRun]:
        """The first finished run of each experiment, by site and experiment."""
        ended = (run for run in reversed(self.runs) if run.verdicts())
        found = {(run.folder.spec.site, run.folder.spec.experiment): run for run in ended}
        return dict(sorted(found.items()))

    @property
    def sites(self) -> list[str]:
        return sorted({site for site, _ in self.experiments})


def crate(study: Study) -> dict[str, Any]:
    """Return the content of ro-crate-metadata.json."""
    files, executions = [*_files(study)], [*_executions(study)]
    graph = [
        entity(
            "ro-crate-metadata.json",
            "CreativeWork",
            conformsTo=[reference("https://w3id.org/ro/crate/1.1"), reference(_WORKFLOW_CRATE)],
            about=reference("./"),
        ),
        *_root(study, files, executions),
        *_workflow(study),
        *files,
        *_images(study),
        *executions,
    ]
    return {
        "@context": ["https://w3id.org/ro/crate/1.1/context", _TERMS],
        "@graph": [_compact(each) for each in graph],
    }


def _compact(entity: Entity) -> Entity:
    """Unwrap lists of one value, as the specification demands, and leave out empty ones."""
    values = {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in entity.items()
    }
    return {key: value for key, value in values.items() if value != []}


def _root(study: Study, files: Sequence[Entity], executions: Sequence[Entity]) -> Iterator[Entity]:
    sites = ", ".join(study.sites) or "no site yet"
    names = sorted({experiment for _, experiment in study.experiments})
    yield entity(
        "./",
        "Dataset",
        name=f"{', '.join(names) or 'A study'} at {sites}",
        description=f"A study of Argosy with its inputs and its results at {sites}. "
        "README.md explains how to run it again.",
        datePublished=study.description.created,
        license=reference(study.license or "#license"),
        conformsTo=[reference(profile) for profile in PROFILES],
        mainEntity=reference(_WORKFLOW),
        hasPart=[*(reference(each["@id"]) for each in files), reference(_WORKFLOW)],
        mentions=[reference(each["@id"]) for each in executions if each["@type"] == "CreateAction"],
        identifier=[
            f"{site}: {digest}"
            for site, digest in sorted(study.description.inputs.items())
            if digest
        ],
    )
    if study.license:
        yield entity(study.license, "CreativeWork", name=study.license)
    else:
        said = "This study names no licence: ask its authors how it may be used."
        yield entity("#license", "CreativeWork", name="not stated", description=said)
    for address, (name, version) in PROFILES.items():
        yield entity(address, "CreativeWork", name=name, version=version)


def _workflow(study: Study) -> Iterator[Entity]:
    programs = [program_id(*each) for each in study.experiments]
    steps = [*(step_id(*each) for each in study.experiments), "#step/report"]
    argosy = study.description.argosy
    yield entity(
        _WORKFLOW,
        ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
        name="Argosy",
        encodingFormat="text/plain",
        conformsTo=reference(_COMPUTATIONAL_WORKFLOW),
        programmingLanguage=reference("#snakemake-language"),
        version=argosy,
        input=[reference("#parameter/config")],
        output=[reference("#parameter/report")],
        hasPart=[reference(each) for each in (*programs, "#argosy")],
        step=[reference(each) for each in steps],
    )
    snakemake = reference("https://snakemake.github.io")
    yield entity(
        "#snakemake-language",
        "ComputerLanguage",
        name="Snakemake",
        url=snakemake,
        identifier=snakemake,
    )
    yield _software("#snakemake", "Snakemake", study.snakemake)
    yield _software("#argosy", "Argosy", argosy)
    yield _parameter("#parameter/config", "config", _CONFIG)
    yield _parameter("#parameter/report", "report", _REPORT)
    for place, ((site, experiment), run) in enumerate(study.experiments.items()):
        program = _software(programs[place], f"{experiment} at {site}", "as bundled")
        yield program | {"description": " ".join(run.folder.spec.command)}
        yield _step(steps[place], place, programs[place])
    yield _step("#step/report", len(programs), "#argosy")


def _software(identifier: str, name: str, version: str) -> Entity:
    return entity(identifier, "SoftwareApplication", name=name, softwareVersion=version)


def _parameter(identifier: str, name: str, description: str) -> Entity:
    return entity(
        identifier,
        "FormalParameter",
        name=name,
        description=description,
        additionalType="File",
        conformsTo=reference(_FORMAL),
    )


def _step(identifier: str, place: int, program: str) -> Entity:
    return entity(identifier, "HowToStep", position=str(place), workExample=reference(program))


def _files(study: Study) -> Iterator[Entity]:
    """Yield the files and folders that readers look for, without the workflow itself."""
    if _CONFIG in study.files:
        yield _file(_CONFIG, "what is measured", "application/yaml") | {
            "exampleOfWork": reference("#parameter/config")
        }
    if _README in study.files:
        yield _file(_README, "how to use the study", "text/markdown") | {"about": reference("./")}
    for site in sorted({run.folder.spec.site for run in study.runs}):
        site_file = f"slurm/{site}/site.yaml"
        if site_file in study.files:
            yield _file(site_file, f"what the site {site} is", "application/yaml")
        yield from _report_files(study, site)
    for run in study.runs:
        yield entity(f"{run.path}/", "Dataset", name=f"files of the run {run.folder.name}")
        yield _file(f"{run.path}/run.json", "what was asked of the run", "application/json")
    for image in study.description.images:
        lock = f"resources/images/{image.name}/image.lock"
        yield _file(lock, f"what the image {image.name} is made of", "application/json")
        if image.archive:
            yield _file(image.archive, f"the image {image.name}", "application/x-tar")


def _report_files(study: Study, site: str) -> Iterator[Entity]:
    report = f"results/{site}/{_REPORT}"
    if report in study.files:
        yield _file(report, f"report of {site}", "text/html") | {
            "exampleOfWork": reference("#parameter/report")
        }
    for name, kind in (("summary.json", "application/json"), ("summary.csv", "text/csv")):
        if f"results/{site}/{name}" in study.files:
            yield _file(f"results/{site}/{name}", f"numbers of the report of {site}", kind)


def _file(path: str, title: str, kind: str) -> Entity:
    return entity(path, "File", name=title, encodingFormat=kind)


def _images(study: Study) -> Iterator[Entity]:
    """Yield the images that runs used, including those without an archive in the bundle."""
    images = [run.folder.spec.image for run in study.runs]
    for digest, name in sorted({each.digest: each.name for each in images if each}.items()):
        yield entity(
            image_id(digest),
            "ContainerImage",
            additionalType=reference("https://w3id.org/ro/terms/workflow-run#DockerImage"),
            name=name,
            tag="latest",
            registry="localhost",
            sha256=digest.removeprefix("sha256:"),
        )


def _executions(study: Study) -> Iterator[Entity]:
    for site in study.sites:
        runs = [run for run in study.runs if run.folder.spec.site == site]
        ended = [(run, verdict) for run in runs for verdict in run.verdicts()]
        attempts = [list(of_attempt(run, verdict)) for run, verdict in ended]
        yield from (each for attempt in attempts for each in attempt)
        began = moment(min(verdict.started for _, verdict in ended))
        until = moment(max(verdict.ended for _, verdict in ended))
        report = f"results/{site}/{_REPORT}"
        whole, writing = f"#study/{site}", f"#report-of/{site}"
        of_study = entity(
            whole,
            "CreateAction",
            name=f"the study at {site}",
            description=f"All runs at {site}, and the report of them.",
            instrument=reference(_WORKFLOW),
            startTime=began,
            endTime=until,
            object=[reference(_CONFIG)] if _CONFIG in study.files else [],
            result=[reference(report)] if report in study.files else [],
            actionStatus=COMPLETED,
        )
        yield of_study
        yield of_study | {
            "@id": writing,
            "name": f"writing of the report of {site}",
            "description": f"The numbers of all runs at {site}, with intervals and charts.",
            "instrument": reference("#argosy"),
            "startTime": until,
            "object": [reference(f"{path}/") for path in sorted({run.path for run, _ in ended})],
        }
        yield entity(
            f"{writing}/control",
            "ControlAction",
            name=f"start of the report of {site}",
            instrument=reference("#step/report"),
            object=reference(writing),
        )
        controls = [*(attempt[0]["@id"] for attempt in attempts), f"{writing}/control"]
        yield entity(
            f"{whole}/organize",
            "OrganizeAction",
            name=f"Snakemake's run of the study at {site}",
            instrument=reference("#snakemake"),
            object=[reference(each) for each in controls],
            result=reference(whole),
            startTime=began,
            endTime=until,
        )
