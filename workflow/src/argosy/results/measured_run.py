"""A run from its files: its specification, its attempts, and the attempts that form its measurement."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from argosy.results.fingerprint import Listing
from argosy.results.hidden_values import without_secrets
from argosy.run_folder.folder import by_number, in_order
from argosy.run_folder.job_file import read_jobs
from argosy.run_folder.models import (
    Claim,
    DataFile,
    Experiment,
    Failure,
    Job,
    NodeStatus,
    Provenance,
    RunFolderError,
    SeenData,
    Verdict,
    as_model,
    check_place,
    read_model,
    read_object,
    read_spec,
)
from argosy.runtime.contract import layout
from argosy.runtime.contract.run import RunSpec
from argosy_common.reading import site_of

NOT_FAILED = ("cancelled", "interrupted")
"""States of attempts that ended early without a failure."""

NO_VERDICT = "ended without a verdict: killed before it could write one, or its node was lost"


@dataclass(frozen=True)
class Attempt:
    """One execution of a run's batch script, from its files."""

    name: str
    verdict: Verdict | None
    nodes: tuple[NodeStatus, ...]
    claim: Claim | None = None
    data: Mapping[str, SeenData] = field(default_factory=dict)

    @property
    def programs(self) -> dict[str, str]:
        """Digests of the measured program's files, and of the data that it only reads."""
        if self.claim is None:
            return {}
        asked = (self.claim.run and self.claim.run.data) or {}
        data = {
            f"data {target}": seen.identity
            for target, seen in self.data.items()
            if seen.identity and target in asked and not asked[target].write
        }
        return {**self.claim.programs, **data}

    @property
    def state(self) -> str:
        """`completed`, `failed`, `interrupted`, `cancelled`, or `unfinished` without any end.

        An unfinished attempt is still running, or was killed at once.
        """
        if self.verdict:
            return self.verdict.state
        states = {node.state for node in self.nodes}
        ends = ("failed", "interrupted", "cancelled")
        return next((state for state in ends if state in states), "unfinished")

    @property
    def failure(self) -> Failure | None:
        """The failure of the verdict, or the first one in a node's status."""
        if self.verdict:
            return self.verdict.failure
        return next((node.failure for node in self.nodes if node.failure), None)

    @property
    def started(self) -> float | None:
        if self.verdict:
            return self.verdict.started
        return min((node.started for node in self._timed), default=None)

    @property
    def ended(self) -> float | None:
        """End in Unix seconds; None if it is not recorded."""
        if self.verdict:
            return self.verdict.ended
        ends = [node.ended for node in self._timed if node.ended is not None]
        return max(ends) if ends and len(ends) == len(self._timed) else None

    @property
    def _timed(self) -> Sequence[NodeStatus]:
        """The first node, since the clocks of nodes may differ; all nodes if it has no status."""
        return [node for node in self.nodes if node.node == 0] or self.nodes

    @property
    def seconds(self) -> float | None:
        if self.verdict:
            return self.verdict.seconds
        if self.started is None or self.ended is None:
            return None
        return self.ended - self.started


@dataclass(frozen=True)
class Piece:
    """The part of a run measured by one attempt: its steps before `until`; None: all."""

    attempt: str
    until: int | None


@dataclass(frozen=True)
class Restarts:
    """Restarts of a run within its jobs."""

    count: int
    lost_s: float
    """Time from the checkpoints to the restarts."""
    nodes: list[int]
    """Number of nodes of each measured part."""


def _lost_s(attempt: Attempt) -> float:
    continues = attempt.claim.continues if attempt.claim else None
    if continues is None or continues.unix is None or attempt.started is None:
        return 0.0
    return max(0.0, attempt.started - continues.unix)


@dataclass(frozen=True)
class MeasuredRun:
    """A run from its folder. `attempts` are in the order of submission."""

    listing: Listing
    asked: RunSpec
    planned: Experiment
    result: Verdict | None
    provenance: str | None
    attempts: tuple[Attempt, ...]
    jobs: tuple[Job, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """(experiment, run_id)."""
        return self.asked.experiment, self.asked.run_id

    @property
    def waited_s(self) -> float | None:
        """Seconds from submission to start of the measured job; None without a queue.

        None also for a requeued or a shared job, which did not only wait for nodes. Clocks of two machines
        are compared, so the wait may be slightly too short.
        """
        claim = self.current.claim if self.current else None
        if self.ran.queue is None or self.current is None or claim is None:
            return None
        job_id, _, restarts = self.current.name.partition(".")
        job = next((each for each in self.jobs if each.job_id == job_id), None)
        if job is None or restarts != "0" or job.allocation or not job.submitted:
            return None
        return max(0.0, claim.unix - job.submitted) if claim.unix else None

    @property
    def current(self) -> Attempt | None:
        """The attempt in `result.json`, else the newest; None without attempts."""
        if self.result:
            named = (one for one in self.attempts if one.name == self.result.attempt)
            return next((replace(one, verdict=self.result) for one in named), None)
        return self.attempts[-1] if self.attempts else None

    @property
    def ran(self) -> RunSpec:
        """Specification at the start of the current attempt; run.json may be newer."""
        claim = self.current.claim if self.current else None
        return claim.run if claim and claim.run else self.asked

    @property
    def experiment(self) -> Experiment:
        """Section of config.yaml at the start of the current attempt."""
        claim = self.current.claim if self.current else None
        return claim.experiment if claim and claim.experiment else self.planned

    @property
    def pieces(self) -> list[Piece]:
        """Parts of the measurement, oldest first: each attempt continues an interrupted one.

        Steps after a checkpoint that were lost and repeated count once.
        """
        found: list[Piece] = []
        by_name = {each.name: each for each in self.attempts}
        here, until = self.current, None
        while here and here.name not in [piece.attempt for piece in found]:
            found.append(Piece(here.name, until))
            continues = here.claim.continues if here.claim else None
            if continues is None:
                break
            until = continues.step if until is None else min(until, continues.step)
            here = by_name.get(continues.attempt)
        return found[::-1]

    @property
    def restarts(self) -> "Restarts | None":
        """Restarts within its jobs; None if there are none."""
        by_name = {each.name: each for each in self.attempts}
        last = {layout.first_attempt(piece.attempt): piece.attempt for piece in self.pieces}
        names = [name for name in by_name if layout.first_attempt(name) in last]
        begun = [by_name[name] for name in names if layout.restarts_of(name)]
        if not begun:
            return None
        claims = [by_name[piece.attempt].claim for piece in self.pieces]
        return Restarts(
            len(begun),
            sum(_lost_s(each) for each in begun),
            [claim.run.nodes if claim and claim.run else self.asked.nodes for claim in claims],
        )

    @property
    def programs(self) -> dict[str, str]:
        """Digests of program and data by name; all digests in turn if one changed during the run."""
        by_name = {each.name: each.programs for each in self.attempts}
        noted = [found for piece in self.pieces if (found := by_name.get(piece.attempt))]
        names = sorted({name for programs in noted for name in programs})
        return {
            name: " then ".join(dict.fromkeys(programs.get(name, "none") for programs in noted))
            for name in names
        }

    @property
    def state(self) -> str:
        """`completed` only with a `result.json`; else the state of the newest attempt."""
        if self.result:
            return self.result.state
        if self.current is None:
            return "pending"
        # A completed verdict without result.json: the job died between the two writes.
        return "unfinished" if self.current.state == "completed" else self.current.state

    def failures(self) -> Iterator[tuple[Attempt, Failure]]:
        """Yield each failed attempt with its cause."""
        current = self.current.name if self.current else None
        for attempt in self.attempts:
            if attempt.name == current and self.state in ("completed", "unfinished"):
                continue
            default = NO_VERDICT
            if attempt.state in NOT_FAILED:
                default = attempt.state
            yield attempt, attempt.failure or Failure(node=None, rank=None, cause=default)

    def records(self, attempt: str) -> list[Path]:
        """Return the files of an attempt's records, sorted by name."""
        folder = self.listing.path / "records" / attempt
        return [folder / name for name in self.listing.records.get(attempt, ())]

    def logs(self, attempt: Attempt) -> list[str]:
        """Return the names of an attempt's logs: the job's first, then nodes and ranks by number."""
        found = (log for log in self.listing.logs.get(attempt.name, ()) if log.endswith(".log"))
        return sorted(found, key=lambda log: (log != "job.log", by_number(Path(log).name)))


def read_run(listing: Listing) -> MeasuredRun:
    """Read the small files of a run folder; raises RunFolderError for an invalid one."""
    folder, files, top = listing.path, listing.files, site_of(listing.path)
    asked = read_spec(folder / "run.json", top)
    check_place(asked, folder)
    result = folder / "result.json"
    path = folder / "provenance.json"
    provenance = read_object(path, top) if path.name in files else None
    jobs = read_jobs(folder) if "job.json" in files else []
    run = MeasuredRun(
        listing=listing,
        asked=asked,
        planned=as_model(path, provenance or {}, Provenance).experiment,
        result=read_model(result, top, Verdict) if result.name in files else None,
        provenance=json.dumps(without_secrets(provenance)) if provenance else None,
        attempts=tuple(_read_attempt(listing, name) for name in _attempt_names(listing, jobs)),
        jobs=tuple(jobs),
    )
    if run.result and run.current is None:
        raise RunFolderError(
            f"{result}: names attempt {run.result.attempt}, which has no records; "
            "move the run folder away and run it again"
        )
    return run


def _attempt_names(listing: Listing, jobs: Sequence[Job]) -> list[str]:
    """Return attempts in order of submission, including those with logs but no records."""
    names = {*listing.attempts, *listing.records, *listing.logs}
    return in_order(names, [job.job_id for job in jobs])


def _read_attempt(listing: Listing, name: str) -> Attempt:
    folder, files = listing.path / "records" / name, listing.records.get(name, ())
    top = site_of(listing.path)
    nodes = [file for file in files if re.fullmatch(r"node-.*\.json", file)]
    attempt_dir, written = listing.path / "attempts" / name, listing.attempts.get(name, ())
    verdict, claim = attempt_dir / "verdict.json", attempt_dir / "claim.json"
    data = attempt_dir / "data.json"
    return Attempt(
        name=name,
        verdict=read_model(verdict, top, Verdict) if verdict.name in written else None,
        nodes=tuple(
            read_model(folder / node, top, NodeStatus) for node in sorted(nodes, key=by_number)
        ),
        claim=read_model(claim, top, Claim) if claim.name in written else None,
        data=read_model(data, top, DataFile).data if data.name in written else {},
    )
