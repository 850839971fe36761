"""ro-crate-metadata.json: the study as a Provenance Run Crate, https://w3id.org/ro/wfrun/provenance/0.5.

These profiles extend RO-Crate 1.1. Each attempt of a run is an action. Run folders are described as a
whole; single files only if readers look for them. A file of the bundle holds the checksums.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.bundle.actions import (
    COMPLETED,
    BundledRun,
    Entity,
    image_id,
    moment,
    of_attempt,
    program_id,
    reference,
    step_id,
)
from argosy.bundle.archive import BundledImage

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
        created: time of writing in ISO 8601.
        files: names of the bundle's files.
        versions: versions of `argosy` and `snakemake`.
        inputs: digests of the studies' inputs by site.
        license: address of the licence; None if not stated.
    """

    created: str
    runs: Sequence[BundledRun]
    images: Sequence[BundledImage]
    files: Collection[str]
    versions: Mapping[str, str]
    inputs: Mapping[str, str | None]
    license: str | None

    @property
    def experiments(self) -> list[tuple[str, str]]:
        """(site, experiment) of every finished run."""
        return sorted({(run.spec.site, run.spec.experiment) for run in self.runs if run.verdicts()})

    @property
    def sites(self) -> list[str]:
        return sorted({site for site, _ in self.experiments})


def crate(study: Study) -> dict[str, Any]:
    """Return the content of ro-crate-metadata.json."""
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "conformsTo": [reference("https://w3id.org/ro/crate/1.1"), reference(_WORKFLOW_CRATE)],
            "about": reference("./"),
        },
        *_root(study),
        *_workflow(study),
        *_files(study),
        *_images(study),
        *_executions(study),
    ]
    return {
        "@context": ["https://w3id.org/ro/crate/1.1/context", _TERMS],
        "@graph": [_compact(entity) for entity in graph],
    }


def _compact(entity: Entity) -> Entity:
    """Unwrap lists of one value, as the specification demands, and leave out empty ones."""
    values = {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in entity.items()
    }
    return {key: value for key, value in values.items() if value != []}


def _root(study: Study) -> Iterator[Entity]:
    sites = ", ".join(study.sites) or "no site yet"
    names = sorted({experiment for _, experiment in study.experiments})
    yield {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{', '.join(names) or 'A study'} at {sites}",
        "description": f"A study of Argosy with its inputs and its results at {sites}. "
        "README.md explains how to run it again.",
        "datePublished": study.created,
        "license": reference(study.license) if study.license else reference("#license"),
        "conformsTo": [reference(profile) for profile in PROFILES],
        "mainEntity": reference(_WORKFLOW),
        "hasPart": [reference(each["@id"]) for each in (*_files(study), {"@id": _WORKFLOW})],
        "mentions": [
            reference(entity["@id"])
            for entity in _executions(study)
            if entity["@type"] == "CreateAction"
        ],
        "identifier": [
            f"{site}: {digest}" for site, digest in sorted(study.inputs.items()) if digest
        ],
    }
    if study.license:
        yield {"@id": study.license, "@type": "CreativeWork", "name": study.license}
    else:
        yield {
            "@id": "#license",
            "@type": "CreativeWork",
            "name": "not stated",
            "description": "This study names no licence: ask its authors how it may be used.",
        }
    for address, (name, version) in PROFILES.items():
        yield {"@id": address, "@type": "CreativeWork", "name": name, "version": version}


def _workflow(study: Study) -> Iterator[Entity]:
    programs = [program_id(*each) for each in study.experiments]
    yield {
        "@id": _WORKFLOW,
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
        "name": "Argosy",
        "encodingFormat": "text/plain",
        "conformsTo": reference(_COMPUTATIONAL_WORKFLOW),
        "programmingLanguage": reference("#snakemake-language"),
        "version": study.versions["argosy"],
        "input": [reference("#parameter/config")],
        "output": [reference("#parameter/report")],
        "hasPart": [reference(each) for each in (*programs, "#argosy")],
        "step": [
            *(reference(step_id(*each)) for each in study.experiments),
            reference("#step/report"),
        ],
    }
    yield {
        "@id": "#snakemake-language",
        "@type": "ComputerLanguage",
        "name": "Snakemake",
        "url": reference("https://snakemake.github.io"),
        "identifier": reference("https://snakemake.github.io"),
    }
    yield _software("#snakemake", "Snakemake", study.versions["snakemake"])
    yield _software("#argosy", "Argosy", study.versions["argosy"])
    yield _parameter("#parameter/config", "config", _CONFIG)
    yield _parameter("#parameter/report", "report", _REPORT)
    for place, (site, experiment) in enumerate(study.experiments):
        run = _first_run(study, site, experiment)
        yield {
            **_software(program_id(site, experiment), f"{experiment} at {site}", "as bundled"),
            "description": " ".join(run.spec.command),
        }
        yield _step(step_id(site, experiment), place, program_id(site, experiment))
    yield _step("#step/report", len(study.experiments), "#argosy")


def _first_run(study: Study, site: str, experiment: str) -> BundledRun:
    return next(
        run for run in study.runs if (run.spec.site, run.spec.experiment) == (site, experiment)
    )


def _software(identifier: str, name: str, version: str) -> Entity:
    return {
        "@id": identifier,
        "@type": "SoftwareApplication",
        "name": name,
        "softwareVersion": version,
    }


def _parameter(identifier: str, name: str, description: str) -> Entity:
    return {
        "@id": identifier,
        "@type": "FormalParameter",
        "name": name,
        "description": description,
        "additionalType": "File",
        "conformsTo": reference(_FORMAL),
    }


def _step(identifier: str, place: int, program: str) -> Entity:
    return {
        "@id": identifier,
        "@type": "HowToStep",
        "position": str(place),
        "workExample": reference(program),
    }


def _files(study: Study) -> Iterator[Entity]:
    """Yield the files and folders that readers look for, without the workflow itself."""
    if _CONFIG in study.files:
        yield _file(_CONFIG, "what is measured", "application/yaml") | {
            "exampleOfWork": reference("#parameter/config")
        }
    if _README in study.files:
        yield _file(_README, "how to use the study", "text/markdown") | {"about": reference("./")}
    for site in sorted({run.spec.site for run in study.runs}):
        site_file = f"slurm/{site}/site.yaml"
        if site_file in study.files:
            yield _file(site_file, f"what the site {site} is", "application/yaml")
        yield from _report_files(study, site)
    for run in study.runs:
        yield {
            "@id": f"{run.name}/",
            "@type": "Dataset",
            "name": f"files of the run {run.name.removeprefix('results/')}",
        }
        yield _file(f"{run.name}/run.json", "what was asked of the run", "application/json")
    for image in study.images:
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


def _file(name: str, title: str, kind: str) -> Entity:
    return {"@id": name, "@type": "File", "name": title, "encodingFormat": kind}


def _images(study: Study) -> Iterator[Entity]:
    """Yield the images that runs used, including those without an archive in the bundle."""
    ran = {run.spec.image.digest: run.spec.image.name for run in study.runs if run.spec.image}
    for digest, name in sorted(ran.items()):
        yield {
            "@id": image_id(digest),
            "@type": "ContainerImage",
            "additionalType": reference("https://w3id.org/ro/terms/workflow-run#DockerImage"),
            "name": name,
            "tag": "latest",
            "registry": "localhost",
            "sha256": digest.removeprefix("sha256:"),
        }


def _executions(study: Study) -> Iterator[Entity]:
    for site in study.sites:
        ended = [
            (run, verdict)
            for run in study.runs
            if run.spec.site == site
            for verdict in run.verdicts()
        ]
        attempts = [list(of_attempt(run, verdict)) for run, verdict in ended]
        yield from (entity for attempt in attempts for entity in attempt)
        began = moment(min(verdict.started for _, verdict in ended))
        until = moment(max(verdict.ended for _, verdict in ended))
        report = f"results/{site}/{_REPORT}"
        results = [reference(report)] if report in study.files else []
        workflow_run = {
            "@id": _workflow_run(site),
            "@type": "CreateAction",
            "name": f"the study at {site}",
            "description": f"All runs at {site}, and the report of them.",
            "instrument": reference(_WORKFLOW),
            "startTime": began,
            "endTime": until,
            "object": [reference(_CONFIG)] if _CONFIG in study.files else [],
            "result": results,
            "actionStatus": COMPLETED,
        }
        yield workflow_run
        yield {
            **workflow_run,
            "@id": f"#report-of/{site}",
            "name": f"writing of the report of {site}",
            "description": f"The numbers of all runs at {site}, with intervals and charts.",
            "instrument": reference("#argosy"),
            "startTime": until,
            "object": [reference(f"{name}/") for name in sorted({run.name for run, _ in ended})],
        }
        yield {
            "@id": f"#report-of/{site}/control",
            "@type": "ControlAction",
            "name": f"start of the report of {site}",
            "instrument": reference("#step/report"),
            "object": reference(f"#report-of/{site}"),
        }
        controls = [attempt[0]["@id"] for attempt in attempts]
        yield {
            "@id": f"{_workflow_run(site)}/organize",
            "@type": "OrganizeAction",
            "name": f"Snakemake's run of the study at {site}",
            "instrument": reference("#snakemake"),
            "object": [reference(each) for each in (*controls, f"#report-of/{site}/control")],
            "result": reference(_workflow_run(site)),
            "startTime": began,
            "endTime": until,
        }


def _workflow_run(site: str) -> str:
    return f"#study/{site}"
