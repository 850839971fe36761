"""The whole of a probe: ask, look, write; or compare with what was written."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import argosy
from argosy.errors import ArgosyError, plain
from argosy.files import write_text
from argosy.probe.drift import find_drift
from argosy.probe.look_jobs import Planned, look_at
from argosy.probe.pending_look import Looked
from argosy.probe.questions import of_any_cluster
from argosy.probe.site_draft import SiteDraft, draft_site
from argosy.probe.site_text import plain as plain_keys
from argosy.probe.site_text import site_text
from argosy.schedulers import find_batch_system
from argosy.schedulers.cluster_facts import ClusterFacts, Surveyor
from argosy.site.models import read_site
from argosy.site.values import KEY, TO_FILL_IN, keys_to_fill_in
from argosy.yaml_file import read_yaml

SCHEDULER = "slurm"
"""The only one so far that can be asked."""

FOLDER = Path("resources/probe")
PROFILE = """\
# snakemake --profile slurm/{name}
config: [site={name}]
argosy-poll-seconds: 15
"""


@dataclass(frozen=True)
class Probe:
    """What is to be found out.

    Args:
        project: the folder that has `slurm/`.
        name: of the site.
        account: the project that pays, where the user says so.
        wait_s: how long jobs may take; None: no jobs.
    """

    project: Path
    name: str
    account: str | None
    wait_s: float | None

    @property
    def folder(self) -> Path:
        """Of the site."""
        return self.project / "slurm" / self.name

    def write(self) -> Iterator[str]:
        """Write the site's folder; yields what was found, in lines.

        Raises:
            ArgosyError: when the folder is there, or the scheduler does not answer.
        """
        if not KEY.fullmatch(self.name):
            raise ArgosyError(
                f"{self.name}: a site's name may hold letters, digits, '.', '_' and '-'"
            )
        if not (self.project / "slurm").is_dir():
            raise ArgosyError(f"{self.project} has no slurm/", "start it in the project's folder")
        if self.folder.exists():
            raise ArgosyError(
                f"slurm/{self.name} is there already, and is not written over",
                f"`argosy site probe {self.name} --again` says where it differs from the cluster; "
                "for a new one, remove it or choose another name",
            )
        began = time.monotonic()
        draft = self._find()
        date = time.strftime("%Y-%m-%d")
        head = [
            f"Written by `argosy site probe {self.name}` (Argosy {argosy.__version__}) on {date}. "
            "Each value says where it comes from; change what you know better. "
            "slurm/mycluster/site.yaml explains every key."
        ]
        write_text(self.folder / "config.yaml", PROFILE.format(name=self.name))
        write_text(self.folder / "site.yaml", site_text(draft, head))
        yield from self._summary(draft, time.monotonic() - began)

    def drift(self) -> list[str]:
        """Return where the site's file differs from the cluster today. Raises ArgosyError."""
        read_site(self.folder)
        written = read_yaml(self.folder / "site.yaml")
        return [
            f"slurm/{self.name}/site.yaml: {plain(each)}"
            for each in find_drift(written, plain_keys(self._find().keys))
        ]

    def _find(self) -> SiteDraft:
        surveyor = find_batch_system(SCHEDULER).make_surveyor()
        if surveyor is None:
            raise ArgosyError(f"{SCHEDULER}: it has no cluster to ask")
        facts = surveyor.survey(self.account, _say)
        return draft_site(SCHEDULER, facts, self._look(facts, surveyor))

    def _look(self, facts: ClusterFacts, surveyor: Surveyor) -> list[Looked]:
        """Look at nodes of each kind that takes jobs now; the others are said to be not looked at."""
        if self.wait_s is None:
            return []
        planned, away = [], []
        for kind in facts.kinds:
            leading = [each for each in facts.queues if kind.name in each.kinds]
            queue = max(leading, key=lambda each: min(2, each.nodes))
            nodes = min(2, kind.usable, queue.nodes)
            if not nodes:
                away.append(Looked(kind.name, problem="none of its nodes takes jobs now"))
                continue
            options = surveyor.look_options(kind, queue, facts.account, nodes)
            place = self.project / FOLDER / self.name / kind.name
            planned.append(Planned(kind.name, options, nodes, nodes, place))
        return away + look_at(planned, of_any_cluster(), surveyor, self.wait_s, _say)

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


def _say(line: str) -> None:
    print(plain(line), file=sys.stderr, flush=True)
