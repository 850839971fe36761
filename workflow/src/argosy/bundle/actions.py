"""Describes attempts as actions of a Provenance Run Crate: https://w3id.org/ro/wfrun/provenance/0.5."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from argosy.report.topics.usage import Usage
from argosy.run_folder.failures import describe_verdict
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import Verdict

Entity = dict[str, Any]
_HOUR_S = 3600
COMPLETED, FAILED = (f"http://schema.org/{name}ActionStatus" for name in ("Completed", "Failed"))
_UN_CEFACT_HOUR, _UN_CEFACT_JOULE = "HUR", "JOU"


@dataclass(frozen=True)
class BundledRun:
    """A run in the bundle, and its resource usage from telemetry, if known."""

    folder: RunFolder
    usage: Usage | None

    @property
    def path(self) -> str:
        """Its folder in the bundle."""
        return f"results/{self.folder.name}"

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts of its attempts, oldest first."""
        found = (self.folder.verdict(name) for name in self.folder.attempts)
        return [verdict for verdict in found if verdict]


def entity(identifier: str, kind: str | list[str], /, **properties: Any) -> Entity:
    return {"@id": identifier, "@type": kind, **properties}


def reference(identifier: str) -> Entity:
    return {"@id": identifier}


def _quote(text: str) -> str:
    """Return text quoted for an address; a lone surrogate becomes a question mark."""
    return quote(text, errors="replace")


def program_id(site: str, experiment: str) -> str:
    return f"#program/{_quote(site)}/{_quote(experiment)}"


def step_id(site: str, experiment: str) -> str:
    return f"#step/{_quote(site)}/{_quote(experiment)}"


def image_id(digest: str) -> str:
    return f"#image/{digest}"


def moment(unix: float) -> str:
    """Return a time in ISO 8601."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="seconds")


def of_attempt(run: BundledRun, verdict: Verdict) -> Iterator[Entity]:
    """Yield an attempt's entities: the step's control action, the action and its resource usage."""
    spec = run.folder.spec
    identifier = f"#run/{_quote(run.folder.name)}/{_quote(verdict.attempt)}"
    title = f"{spec.experiment} on {spec.nodes} nodes with {spec.ranks_per_node} ranks each"
    used = list(_used(run, verdict, identifier))
    action = entity(
        identifier,
        "CreateAction",
        name=f"{title}, repeat {spec.repeat}, attempt {verdict.attempt}",
        description=" ".join(spec.command) or "the program of the run",
        instrument=reference(program_id(spec.site, spec.experiment)),
        startTime=moment(verdict.started),
        endTime=moment(verdict.ended),
        object=[reference(f"{run.path}/run.json")],
        result=[reference(f"{run.path}/")],
        actionStatus=COMPLETED if verdict.state == "completed" else FAILED,
        resourceUsage=[reference(each["@id"]) for each in used],
    )
    if verdict.state != "completed":
        action["error"] = describe_verdict(run.folder, verdict) or verdict.state
    if spec.image:
        action["containerImage"] = reference(image_id(spec.image.digest))
    yield entity(
        f"{identifier}/control",
        "ControlAction",
        name=f"start of {title}",
        instrument=reference(step_id(spec.site, spec.experiment)),
        object=reference(identifier),
    )
    yield action
    yield from used


def _used(run: BundledRun, verdict: Verdict, identifier: str) -> Iterator[Entity]:
    """Yield an attempt's resource usage; energy only for the result's attempt."""
    hours = verdict.seconds * (len(verdict.hosts) or run.folder.spec.nodes) / _HOUR_S
    yield _amount(identifier, "node-hours", hours, _UN_CEFACT_HOUR)
    result = run.folder.result
    if run.usage is None or result is None or result.attempt != verdict.attempt:
        return
    if run.usage.cpu_j is not None:
        yield _amount(identifier, "energy of processors", run.usage.cpu_j, _UN_CEFACT_JOULE)
    if run.usage.gpu_j is not None:
        yield _amount(identifier, "energy of GPUs", run.usage.gpu_j, _UN_CEFACT_JOULE)


def _amount(identifier: str, name: str, value: float, unit: str) -> Entity:
    """Return an amount with a unit code of UN/CEFACT recommendation 20."""
    address = f"{identifier}/{_quote(name)}"
    return entity(address, "PropertyValue", name=name, propertyID=name, value=value, unitCode=unit)
