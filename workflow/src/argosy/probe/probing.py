"""Probes a cluster: queries the scheduler, inspects nodes, writes or compares the site's folder."""

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import argosy
from argosy.probe.look_jobs import Looked, look_at
from argosy.probe.looks import of_any_cluster
from argosy.probe.site_draft import SiteDraft, draft_site, site_text
from argosy.probe.site_draft import plain as plain_keys
from argosy.schedulers import find_batch_system
from argosy.schedulers.batch_system import ClusterFacts, LookJob, Surveyor
from argosy.site.models import Site, read_site
from argosy.site.values import KEY, TO_FILL_IN, keys_to_fill_in
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError, plain
from argosy_common.files import write_text


def find_drift(written: Mapping[str, Any], today: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between a site's file and the cluster today, in words.

    Keys that only the file has are ignored, except for hardware and queues.

    Args:
        written: the content of site.yaml.
        today: the keys of a draft.
    """
    # Compare parsed values: `1d` equals `24h`.
    known = Site.model_validate(_known_keys(today)).model_dump()
    file = Site.model_validate(written).model_dump()
    for key in ("interface", "account", "account_required", "tmpdir"):
        is_known = today.get(key, TO_FILL_IN) != TO_FILL_IN or key == "account_required"
        if is_known and file[key] != known[key]:
            yield f"{key}: the file says {_in_words(file[key])}, the cluster {_in_words(known[key])}"
    for folder in known["absent_folders"]:
        if folder not in file["absent_folders"]:
            yield f"absent_folders: nodes lack {folder}, which is missing in the file"
    yield from _entry_drift("hardware", file["hardware"], known["hardware"], _hardware_identity)
    yield from _entry_drift("queues", file["queues"], known["queues"], _queue_identity)


def _known_keys(today: Mapping[str, Any]) -> dict[str, Any]:
    """Return the draft's keys with known values, which the model accepts."""
    found = {key: value for key, value in today.items() if value != TO_FILL_IN}
    return {**found, "account_required": bool(today.get("account_required"))}


def _hardware_identity(name: str, entry: Mapping[str, Any]) -> object:
    return entry["options"].get("gres") or entry["gpu"] or ("cpu" if not entry["gpus"] else name)


def _queue_identity(name: str, entry: Mapping[str, Any]) -> object:
    return entry["options"].get("partition", name)


def _entry_drift(
    key: str, file: Mapping[str, Any], today: Mapping[str, Any], identity: Any
) -> Iterator[str]:
    """Yield the differences between entries; two entries match if `identity` returns the same for both."""
    now = {identity(name, entry): entry for name, entry in today.items()}
    then = {identity(name, entry): (name, entry) for name, entry in file.items()}
    for mark, (name, entry) in then.items():
        if mark not in now:
            yield f"{key}.{name}: the cluster has none ({mark})"
            continue
        for part in _COMPARED[key]:
            if entry[part] != now[mark][part] and entry[part] is not None:
                yield (
                    f"{key}.{name}.{part}: the file says {_in_words(entry[part])}, "
                    f"the cluster {_in_words(now[mark][part])}"
                )
    for mark in now:
        if mark not in then:
            yield f"{key}: the cluster has {mark}, which the file lacks"


_COMPARED = {
    "hardware": ("architecture", "cores", "threads_per_core", "memory", "gpus"),
    "queues": ("limits", "gpus_only"),
}


def _in_words(value: object) -> str:
    return "nothing" if value in (None, (), {}) else str(value)


SCHEDULER = "slurm"
"""The only scheduler with a surveyor."""

FOLDER = Path("resources/probe")
PROFILE = """\
# snakemake --profile slurm/{name}
config: [site={name}]
argosy-poll-seconds: 15
"""


@dataclass(frozen=True)
class Probe:
    """A probe of the cluster.

    Args:
        project: the folder that contains `slurm/`.
        name: name of the site.
        account: the account to charge, if the user names one.
        wait_s: seconds that jobs may take; None: submit none.
    """

    project: Path
    name: str
    account: str | None
    wait_s: float | None

    @property
    def folder(self) -> Path:
        """The site's folder."""
        return self.project / "slurm" / self.name

    def check(self) -> None:
        """Raise ArgosyError if the name is invalid or the folder exists."""
        if not KEY.fullmatch(self.name):
            raise ArgosyError(
                f"{self.name}: a site's name may contain letters, digits, '.', '_' and '-'"
            )
        if self.folder.exists():
            raise ArgosyError(
                f"slurm/{self.name} exists and is not overwritten",
                f"to compare it with the cluster, run `argosy site probe {self.name} --again`; to "
                "write a new one, remove the folder or choose another name",
            )

    def write(self) -> Iterator[str]:
        """Write the site's folder and yield the findings, line by line.

        Raises:
            ArgosyError: as of `check`, or if the scheduler does not answer.
        """
        self.check()
        began = time.monotonic()
        draft = self._draft()
        date = time.strftime("%Y-%m-%d")
        head = [
            f"Written by `argosy site probe {self.name}` (Argosy {argosy.__version__}) on {date}. "
            "Comments give the source of each value; correct wrong ones. "
            "slurm/mycluster/site.yaml explains every key."
        ]
        write_text(self.folder / "config.yaml", PROFILE.format(name=self.name))
        write_text(self.folder / "site.yaml", site_text(draft, head))
        yield from self._summary(draft, time.monotonic() - began)

    def drift(self) -> list[str]:
        """Return the differences between the site's file and the cluster today. Raises ArgosyError."""
        read_site(self.folder)
        written = read_yaml(self.folder / "site.yaml")
        return [
            f"slurm/{self.name}/site.yaml: {plain(each)}"
            for each in find_drift(written, plain_keys(self._draft().keys))
        ]

    def _draft(self) -> SiteDraft:
        surveyor = _surveyor()
        facts = surveyor.survey(self.account, _say)
        return draft_site(SCHEDULER, facts, self._look_at_nodes(facts, surveyor))

    def _look_at_nodes(self, facts: ClusterFacts, surveyor: Surveyor) -> list[Looked]:
        """Inspect nodes of each kind that accepts jobs now; report the others as not inspected."""
        if self.wait_s is None:
            return []
        jobs, away = {}, []
        for kind in facts.kinds:
            leading = [each for each in facts.queues if kind.name in each.kinds]
            queue = max(leading, key=lambda each: min(2, each.nodes))
            nodes = min(2, kind.usable, queue.nodes)
            if not nodes:
                away.append(Looked(kind.name, problem="none of its nodes accepts jobs now"))
                continue
            options = surveyor.look_options(kind, queue, facts.account, nodes)
            place = self.project / FOLDER / self.name / kind.name
            jobs[kind.name] = LookJob(options, nodes, nodes, place)
        return away + look_at(jobs, of_any_cluster(), surveyor, self.wait_s, _say)

    def _summary(self, draft: SiteDraft, took_s: float) -> Iterator[str]:
        keys = plain_keys(draft.keys)
        yield f"slurm/{self.name}/ written in {took_s:.0f} s"
        for name, entry in keys["hardware"].items():
            gpus = (
                f", {entry['gpus']} GPUs {entry.get('gpu', '')}".rstrip() if "gpus" in entry else ""
            )
            yield f"  hardware {name}: {entry['cores']} cores, {entry['memory']}{gpus}"
        for name, entry in keys["queues"].items():
            limit = entry["limits"][0]
            aside = ", only by name" if entry.get("only_by_name") else ""
            yield (
                f"  queue {name}: {', '.join(entry['hardware'])}, {limit['nodes']} nodes, "
                f"{limit.get('time', 'no time limit')}{aside}"
            )
        for key in ("interface", "tmpdir", "account"):
            if key in keys:
                yield f"  {key}: {keys[key]}"
        for each in draft.unknown:
            yield f"  not found: {plain(each)}"
        if missing := keys_to_fill_in(keys):
            yield f"fill in {', '.join(missing)} in slurm/{self.name}/site.yaml (`{TO_FILL_IN}`), then:"
        yield f"snakemake --profile slurm/{self.name}"


def _surveyor() -> Surveyor:
    surveyor = find_batch_system(SCHEDULER).make_surveyor()
    if surveyor is None:
        raise ArgosyError(f"{SCHEDULER}: this scheduler has no cluster to probe")
    return surveyor


def _say(line: str) -> None:
    print(plain(line), file=sys.stderr, flush=True)


def cluster_here() -> str:
    """Return this cluster's name; raises ArgosyError if no scheduler answers on this machine."""
    return _surveyor().cluster_name()


def find_here(project: Path) -> str:
    """Return the site folder of this cluster, by its `cluster_name` or its own name.

    Raises:
        ArgosyError: if there is none, or several.
    """
    cluster = cluster_here()
    folders = [path.parent for path in sorted((project / "slurm").glob("*/site.yaml"))]
    named = {folder.name: _cluster_name(folder) for folder in folders}
    found = [name for name, known in named.items() if known and known == cluster]
    # Without a cluster_name, the folder's own name counts.
    found = found or [
        name for name, known in named.items() if not known and name.lower() == cluster.lower()
    ]
    if len(found) > 1:
        raise ArgosyError(
            f"slurm/: {', '.join(found)} all have cluster_name: {cluster}",
            "remove it from all but one",
        )
    if not found:
        raise ArgosyError(
            f"slurm/: no folder describes this cluster, which is named {cluster or 'nothing'}",
            f"argosy site probe {cluster or 'NAME'} writes one",
        )
    return found[0]


def _cluster_name(folder: Path) -> str:
    """Return the cluster_name of a site's file; empty if the file cannot be read or is incomplete."""
    try:
        return read_site(folder).cluster_name or ""
    except ArgosyError:
        return ""
