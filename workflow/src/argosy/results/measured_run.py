"""A run as its files tell it: what was asked, its attempts, and which of them is the measurement."""

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
"""States of attempts that ended early without being at fault."""

NO_VERDICT = "ended without a verdict: killed before it could write one, or its node was lost"


@dataclass(frozen=True)
class Attempt:
    """One execution of a run's job, as far as its files tell."""

    name: str
    verdict: Verdict | None
    nodes: tuple[NodeStatus, ...]
    claim: Claim | None = None
    data: Mapping[str, SeenData] = field(default_factory=dict)

    @property
    def programs(self) -> dict[str, str]:
        """Digests of what it was a measurement of: files of its program, and data that it only reads."""
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
        """`completed`, `failed`, `interrupted`, `cancelled`, or `unfinished`: no verdict, no end.

        An unfinished attempt is running still, or was killed with no time to say so.
        """
        if self.verdict:
            return self.verdict.state
        states = {node.state for node in self.nodes}
        ends = ("failed", "interrupted", "cancelled")
        return next((state for state in ends if state in states), "unfinished")

    @property
    def failure(self) -> Failure | None:
        """The failure of the verdict, or the first that a node knew of."""
        if self.verdict:
            return self.verdict.failure
        return next((node.failure for node in self.nodes if node.failure), None)

    @property
    def started(self) -> float | None:
        if self.verdict:
            return self.verdict.started
        return min((node.started for node in self.nodes), default=None)

    @property
    def ended(self) -> float | None:
        """Seconds since the epoch; None when not every node lived to note its end."""
        if self.verdict:
            return self.verdict.ended
        ends = [node.ended for node in self.nodes if node.ended is not None]
        return max(ends) if ends and len(ends) == len(self.nodes) else None

    @property
    def seconds(self) -> float | None:
        if self.verdict:
            return self.verdict.seconds
        if self.started is None or self.ended is None:
            return None
        return self.ended - self.started


@dataclass(frozen=True)
class Piece:
    """The part of a run that one attempt did: its steps before `until`, None: all of them."""

    attempt: str
    until: int | None


@dataclass(frozen=True)
class Restarts:
    """How often a run began again within its jobs, the seconds from its checkpoints to that, and the nodes
    of each part that counts."""

    count: int
    lost_s: float
    nodes: list[int]


def _lost_s(attempt: Attempt) -> float:
    continues = attempt.claim.continues if attempt.claim else None
    if continues is None or continues.unix is None or attempt.started is None:
        return 0.0
    return max(0.0, attempt.started - continues.unix)


@dataclass(frozen=True)
class MeasuredRun:
    """A run as its folder tells it. `attempts` are in the order of submission."""

    listing: Listing
    asked: RunSpec
    planned: Experiment
    result: Verdict | None
    provenance: str | None
    attempts: tuple[Attempt, ...]
    jobs: tuple[Job, ...] = ()

    @property
    def waited_s(self) -> float | None:
        """Seconds from the submission of the measured job to its start; None where it had no queue.

        Also of a job that was requeued, or that runs shared: it waited for more than a place. The clocks
        are two machines', so a wait may come out a little short.
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
    def ranks(self) -> int:
        return self.asked.ranks

    @property
    def current(self) -> Attempt | None:
        """The attempt that `result.json` names, else the newest; None before the first."""
        if self.result:
            named = (one for one in self.attempts if one.name == self.result.attempt)
            return next((replace(one, verdict=self.result) for one in named), None)
        return self.attempts[-1] if self.attempts else None

    @property
    def ran(self) -> RunSpec:
        """What was asked when the current attempt began; run.json may say by now what is asked next."""
        claim = self.current.claim if self.current else None
        return claim.run if claim and claim.run else self.asked

    @property
    def experiment(self) -> Experiment:
        """The section of config.yaml by which the current attempt began."""
        claim = self.current.claim if self.current else None
        return claim.experiment if claim and claim.experiment else self.planned

    @property
    def pieces(self) -> list[Piece]:
        """What the measurement is made of, the oldest first: an interrupted job is continued by the next.

        Steps that were done after a checkpoint and lost are done again, and count once.
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
        """What its restarts in place came to; None without any."""
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
        """Digests of program and data; of one that changed while the run was continued, each in turn."""
        by_name = {each.name: each.programs for each in self.attempts}
        noted = [found for piece in self.pieces if (found := by_name.get(piece.attempt))]
        names = sorted({name for programs in noted for name in programs})
        return {
            name: " then ".join(dict.fromkeys(programs.get(name, "none") for programs in noted))
            for name in names
        }

    @property
    def state(self) -> str:
        """`completed` by `result.json` alone; else as the newest attempt ended."""
        if self.result:
            return self.result.state
        if self.current is None:
            return "pending"
        # A verdict whose copy was never made is not a result: the job died between the two writes.
        return "unfinished" if self.current.state == "completed" else self.current.state

    def failures(self) -> Iterator[tuple[Attempt, Failure]]:
        """Yield each attempt that came to nothing, with the cause that it left."""
        current = self.current.name if self.current else None
        for attempt in self.attempts:
            if attempt.name == current and self.state in ("completed", "unfinished"):
                continue
            default = NO_VERDICT
            if attempt.state in NOT_FAILED:
                default = attempt.state
            yield attempt, attempt.failure or Failure(node=None, rank=None, cause=default)

    def records(self, attempt: str) -> list[Path]:
        """Return the files of an attempt's records, by name."""
        folder = self.listing.path / "records" / attempt
        return [folder / name for name in self.listing.records.get(attempt, ())]

    def logs(self, attempt: Attempt) -> list[str]:
        """Return names of an attempt's log files: the job's first, then nodes and ranks by number."""
        found = (log for log in self.listing.logs.get(attempt.name, ()) if log.endswith(".log"))
        return sorted(found, key=lambda log: (log != "job.log", by_number(Path(log).name)))


def read_run(listing: Listing) -> MeasuredRun:
    """Read the small files of a run folder; raise RunFolderError for one that breaks the contract."""
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
            f"{result}: names attempt {run.result.attempt}, which has no records;  "
            "move the run folder away and run it again"
        )
    return run


def _attempt_names(listing: Listing, jobs: Sequence[Job]) -> list[str]:
    """Return attempts by order of submission; a job that left logs but no records is one too."""
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
