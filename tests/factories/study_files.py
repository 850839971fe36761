"""Run folders as docs/run-folder.md describes them, with numbers that a test can foresee."""

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import step_files

from argosy.runtime.contract import layout

STARTED = 1_800_000_000.0
PHASES = {"data": 0.1, "forward": 0.3, "backward": 0.4, "update": 0.1}
"""Shares of a step's time; the rest, a tenth, is in no phase."""


@dataclass(frozen=True)
class RunFiles:
    """The folder of one run, to be filled."""

    path: Path
    nodes: int
    ranks_per_node: int
    hosts: tuple[str, ...] = ()
    """By node; empty: host0, host1, …"""
    run_id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_id", self.path.name)

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    def records(self, attempt: str) -> Path:
        folder = self.path / "records" / attempt
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def attempt(self, attempt: str) -> Path:
        folder = self.path / "attempts" / attempt
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def rank_file(self, attempt: str, rank: int) -> Path:
        return self.records(attempt) / f"rank-{rank}.jsonl"

    def steps_file(self, attempt: str, rank: int) -> Path:
        return self.records(attempt) / f"rank-{rank}.steps"

    def execute(
        self,
        attempt: str = "100.0",
        state: str = "completed",
        seconds: float = 60.0,
        failure: Mapping[str, Any] | None = None,
        started: float = STARTED,
    ) -> None:
        """The files of agents and job of one attempt, and result.json if it is completed."""
        hosts = self.hosts or tuple(f"host{node}" for node in range(self.nodes))
        verdict = {
            "schema_version": 2,
            "run_id": self.run_id,
            "attempt": attempt,
            "state": state,
            "started": started,
            "ended": started + seconds,
            "seconds": seconds,
            "hosts": hosts,
            "failure": failure,
        }
        write_json(self.attempt(attempt) / "verdict.json", verdict)
        for node, host in enumerate(hosts):
            self.node_status(attempt, node, host, state, ended=STARTED + seconds, failure=failure)
        self.logs(attempt)
        if state == "completed":
            write_json(self.path / "result.json", verdict)

    def claim(
        self,
        attempt: str = "100.0",
        continues: tuple[str, int] | None = None,
        programs: Mapping[str, str] | None = None,
    ) -> None:
        """How the attempt began; `continues` is an older one and the steps that it had done."""
        checkpoint = continues and {"attempt": continues[0], "step": continues[1]}
        content: dict[str, Any] = {"schema_version": 2, "unix": STARTED, "continues": checkpoint}
        if programs is not None:
            content["programs"] = programs
        write_json(self.attempt(attempt) / "claim.json", content)

    def submitted(self, waited_s: float, job_id: str = "100", **more: Any) -> None:
        """Its job was submitted so long before the attempt began."""
        job = {"scheduler": "slurm", "job_id": job_id, "submitted": STARTED - waited_s, **more}
        write_json(self.path / "job.json", {"schema_version": 2, "jobs": [job]})
        self.claim(f"{job_id}.0")

    def node_status(
        self,
        attempt: str,
        node: int,
        host: str,
        state: str,
        *,
        ended: float | None,
        failure: Mapping[str, Any] | None = None,
    ) -> None:
        machine = {
            "cpu_model": "Test CPU <1>",
            "cpus": 8,
            "memory_bytes": 16 * 1024**3,
            "kernel": "6.1.0",
        }
        status = {
            "schema_version": 2,
            "node": node,
            "host": host,
            "state": state,
            "started": STARTED,
            "ended": ended,
            "machine": machine,
            "ranks": [],
            "failure": failure,
        }
        write_json(self.records(attempt) / f"node-{node}.json", status)

    def logs(self, attempt: str) -> None:
        folder = self.path / "logs" / attempt
        (folder / "ranks").mkdir(parents=True, exist_ok=True)
        names = [f"node-{node}" for node in range(self.nodes)]
        names += [f"ranks/rank-{rank}" for rank in range(self.ranks)]
        for name in ["job", *names]:
            (folder / f"{name}.log").write_text(f"{Path(name).name} of {self.run_id}\n")

    def steps(
        self,
        attempt: str = "100.0",
        *,
        step_s: float = 0.1,
        samples: int = 32,
        steps: int = 15,
        warm_up_s: float = 1.0,
        phases: Mapping[str, float] | None = None,
        metrics: Mapping[str, Any] | None = None,
        ranks: Sequence[int] | None = None,
        first_step: int = 0,
    ) -> None:
        """Records of every rank: five slow steps of each job, then steps of `step_s`; `phases` are shares.

        Rank 0 is the slowest: every further rank is one per mille faster.
        """
        shares = PHASES if phases is None else phases
        chosen = range(self.ranks) if ranks is None else ranks
        for rank in chosen:
            at = 1000.0 + rank
            lines, rows = [self._header(rank, STARTED + 2)], []
            for step in range(first_step, steps):
                seconds = (warm_up_s if step - first_step < 5 else step_s) * (1 - 0.001 * rank)
                in_phases = {name: share * seconds for name, share in shares.items()}
                rows.append(_step(step, at, seconds, samples, in_phases))
                at += seconds
            if rank == chosen[0]:
                lines += [
                    {"kind": "metric", "name": name, "value": value, "at": at}
                    for name, value in (metrics or {}).items()
                ]
            self._write_rank(rank, lines, rows, attempt)

    def timed_steps(
        self,
        rank: int,
        own_work_s: Iterable[float],
        seconds: Iterable[float],
        samples: int,
        *,
        clock_offset_s: float = 0.0,
    ) -> None:
        """Records of a rank whose steps take these `seconds`; what is not its own work is waiting."""
        at = 1000.0 + rank
        lines, rows = [self._header(rank, STARTED + 2 + clock_offset_s)], []
        for step, (own_s, step_s) in enumerate(zip(own_work_s, seconds, strict=True)):
            in_phases = {"backward": float(own_s), "communication": float(step_s - own_s)}
            rows.append(_step(step, at, float(step_s), samples, in_phases))
            at += float(step_s)
        self._write_rank(rank, lines, rows, "100.0")

    def _header(self, rank: int, unix: float) -> dict[str, Any]:
        return {
            "kind": "header",
            "schema_version": 2,
            "rank": rank,
            "local_rank": rank % self.ranks_per_node,
            "node": rank // self.ranks_per_node,
            "host": f"host{rank // self.ranks_per_node}",
            "pid": 4000 + rank,
            "unix": unix,
            "monotonic": 1000.0 + rank,
        }

    def _write_rank(
        self,
        rank: int,
        lines: Sequence[Mapping[str, Any]],
        steps: Iterable[Mapping[str, Any]],
        attempt: str,
    ) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.rank_file(attempt, rank).write_text(text)
        header = step_files.header(rank, lines[0]["unix"], lines[0]["monotonic"], lines[0]["node"])
        rows = (step_files.row(step) for step in steps)
        step_files.write_rows(self.steps_file(attempt, rank), [header, *rows])

    def telemetry(
        self,
        node: int,
        gpus: int = 0,
        attempt: str = "100.0",
        *,
        interval_s: float = 5.0,
        cpu_j: Callable[[float], float] = lambda second: 100 * second,
        utilisation: float = 0.8,
        **unread: str,
    ) -> None:
        """Ten seconds of a node: 4 of 8 CPUs busy, 100 W, 3 MB/s out; a GPU busy by `utilisation`, 300 W.

        `cpu_j` is the processors' energy after so many seconds, if it is not 100 W all the time. Keys of
        the node's samples that are `unread` are missing, with the reason in the header.
        """
        header = {
            "kind": "header",
            "schema_version": 2,
            "node": node,
            "host": f"host{node}",
            "unix": STARTED,
            "monotonic": 100.0,
            "interval_s": 1.0,
            "driver": "570" if gpus else None,
            "gpus": [{"gpu": gpu, "uuid": f"GPU-{gpu}"} for gpu in range(gpus)],
            "unread": unread,
        }
        lines: list[dict[str, Any]] = [header]
        for second in (number * interval_s for number in range(1 + int(10 / interval_s))):
            sample = {
                "kind": "node",
                "at": 100 + second,
                "cpu_s": 4 * second,
                "cpus": 8,
                "memory_used_bytes": 1000 + int(second),
                "network_sent_bytes": int(3e6 * second),
                "network_received_bytes": 0,
                "cpu_energy_j": cpu_j(second),
            }
            lines.append({key: value for key, value in sample.items() if key not in unread})
            lines += [
                {
                    "kind": "gpu",
                    "at": 100 + second,
                    "gpu": gpu,
                    "utilisation": utilisation,
                    "memory_used_bytes": 5000 + gpu,
                    "energy_j": 300 * second,
                }
                for gpu in range(gpus)
            ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.records(attempt) / f"telemetry-{node}.jsonl").write_text(text)

    def printed(self, values: Sequence[float], attempt: str = "100.0", rank: int = 0) -> None:
        lines = [
            {"kind": "printed", "samples_per_second": value, "at": 1000.0 + place}
            for place, value in enumerate(values)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.records(attempt) / layout.printed(rank)).write_text(text)


def _step(
    step: int, at: float, seconds: float, samples: int, phases_s: Mapping[str, float]
) -> dict[str, Any]:
    return {
        "step": step,
        "epoch": step // 10,
        "start": at,
        "seconds": seconds,
        "samples": samples,
        "phases": dict(phases_s),
    }


def plan(
    results: Path,
    experiment: str = "digits",
    nodes: int = 1,
    ranks_per_node: int = 1,
    repeat: int = 1,
    *,
    scaling: str = "strong",
    variant: Mapping[str, str] | None = None,
    timeline: bool = False,
    environment: Mapping[str, str] | None = None,
    site_environment: Mapping[str, str] | None = None,
    resources: Mapping[str, int] | None = None,
    command: str = "python3 train.py",
    launcher: str = "horovod",
    native: bool = False,
    hardware: str | None = None,
    queue: str | None = None,
    digest: str = "ab",
    throughput: str | Mapping[str, Any] | None = None,
) -> RunFiles:
    """A run that was planned and not yet submitted."""
    run_id = f"nodes{nodes}-ranks{ranks_per_node}-repeat{repeat}"
    path = results / experiment / run_id
    image = {"name": "torch-cpu", "digest": "sha256:" + digest * 32}
    asked = {
        "schema_version": 2,
        "run_id": run_id,
        "experiment": experiment,
        "site": results.name,
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "repeat": repeat,
        "scaling": scaling,
        "image": image,
        "hardware": hardware,
        "queue": queue,
        "command": command.split(),
        "runtime": "native" if native else "container",
        "launcher": launcher,
        "rank_environment": {**(site_environment or {}), **(environment or {})},
        "throughput": throughput,
        "time_limit_s": 600,
        **({"variant": variant} if variant else {}),
        **({"timeline": True} if timeline else {}),
    }
    provenance = {
        "schema_version": 2,
        "argosy": {"version": "0.1.0", "git_commit": "0123abc", "git_dirty": False},
        "image": image
        | {
            "base": "docker.io/library/python@sha256:" + "cd" * 32,
            "steps": ["RUN pip install torch", "COPY . /workloads"],
        },
        "software": {"python": "3.11.7", "snakemake": "9.27.1", "udocker": "1.3.17"},
        "experiment": {
            "image": "torch-cpu",
            "command": command.split(),
            "resources": {
                "cpus_per_rank": 1,
                "gpus_per_rank": 0,
                "memory_per_rank": 2048,
                "time": 600,
            }
            | {**(resources or {})},
            **({"environment": {**environment}} if environment else {}),
        },
        "site": {"name": results.name, "scheduler": "local"},
    }
    write_json(path / "run.json", asked)
    write_json(path / "provenance.json", provenance)
    (path / "job.sbatch").write_text("#!/bin/bash\n")
    return RunFiles(path, nodes, ranks_per_node)


def completed(
    results: Path, step_s: float = 0.1, metrics: Mapping[str, Any] | None = None, **asked: Any
) -> RunFiles:
    """A run that is completed, with 15 steps of 32 samples in each rank."""
    run = plan(results, **asked)
    run.execute()
    run.steps(step_s=step_s, metrics=metrics)
    return run


def sample_study(results: Path) -> None:
    """Two experiments as a user would have them: repeats with spread, failures, a pending run."""
    chance = random.Random(7)
    for nodes, step_s in ((1, 0.120), (2, 0.070), (4, 0.046)):
        for repeat in (1, 2, 3):
            run = plan(results, "digits-mlp", nodes, 2, repeat)
            communication = 0.05 + 0.1 * nodes + repeat / 1000 if nodes > 1 else 0.02
            left = 0.95 - communication
            shares = {
                "data": 0.15 * left,
                "forward": 0.3 * left,
                "backward": 0.45 * left,
                "communication": communication,
                "update": 0.1 * left,
            }
            run.execute(seconds=95.0 / nodes)
            run.steps(
                step_s=step_s * chance.gauss(1, 0.03),
                samples=64 // nodes,
                phases=shares,
                metrics={
                    "test_accuracy": chance.gauss(0.955, 0.004),
                    "weights_identical": True,
                },
            )
    killed = {"node": 1, "rank": 3, "cause": "killed by signal 9", "at": STARTED + 20}
    run.execute("99.0", state="failed", seconds=21.5, failure=killed)
    plan(results, "digits-mlp", 8, 2, 1)
    failed = plan(results, "digits-mlp", 8, 2, 2)
    failed.execute("120.0", state="cancelled", seconds=600.0)
    for nodes, rate in ((1, 410.0), (2, 778.0)):
        run = plan(results, "resnet <b>50 &", nodes, scaling="weak")
        run.execute()
        run.printed([rate * chance.gauss(1, 0.02) for _ in range(10)])


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
