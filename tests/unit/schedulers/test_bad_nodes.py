"""Which nodes later jobs avoid, from how runs ended on which."""

import json
from pathlib import Path

import pytest
from slurm_answers import answering, stand_in, table

from argosy.schedulers.base import State, Status
from argosy.schedulers.slurm.answers import hostnames
from argosy.schedulers.slurm.bad_nodes import LEAST_FAILURES, BadNodes, excluded
from argosy.schedulers.slurm.commands import Patience
from argosy.schedulers.slurm.partitions import NODE_FIELDS, Node


class Study:
    """Runs that have ended."""

    def __init__(self, site: Path) -> None:
        self._site = site
        self._count = 0
        self.bad = BadNodes(Patience())

    def ends(self, nodes: str, cause: str = "", node: int = 0, state: str = "failed") -> None:
        """Let a run end on these nodes: by a failure of one of them, or well."""
        self._count += 1
        job = str(self._count)
        run_dir = self._site / f"x/nodes1-ranks1-repeat{self._count}"
        attempt = run_dir / f"attempts/{job}.0"
        attempt.mkdir(parents=True)
        failure = {"node": node, "rank": 0, "cause": cause, "at": 1.0}
        verdict = {
            "schema_version": 2,
            "run_id": "r",
            "attempt": f"{job}.0",
            "seconds": 1.0,
            "started": 1.0,
            "ended": 2.0,
            "hosts": [],
            "state": state if cause else "completed",
            "failure": failure if cause else None,
        }
        (attempt / "verdict.json").write_text(json.dumps(verdict))
        self.bad.note(run_dir, Status(State.FAILED, job, nodes=nodes))

    @property
    def avoided(self) -> set[str]:
        return {*self.bad.found()}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "project/results/bed")


def test_from_the_second_failure_of_its_kind_on(study: Study) -> None:
    study.ends("n1", "exit code 1")
    assert study.avoided == set()
    study.ends("n1", "killed by signal 9 (SIGKILL)")
    assert study.avoided == set()
    study.ends("n1", "exit code 1")
    assert study.avoided == {"n1"}


def test_a_program_that_fails_everywhere_excludes_no_node(study: Study) -> None:
    study.ends("n1", "exit code 1")
    study.ends("n1", "exit code 1")
    study.ends("n2", "exit code 1")
    study.ends("n2", "exit code 1")
    assert study.avoided == set()


def test_two_bad_nodes_among_many_good_ones(study: Study) -> None:
    for node in ("n1", "n2"):
        study.ends(node, "it did not start: no engine in /tmp/x-77")
        study.ends(node, "it did not start: no engine in /tmp/x-8812")
    assert study.avoided == set()
    for node in ("n3", "n4", "n5"):
        study.ends(node)
    assert study.avoided == {"n1", "n2"}


def test_a_node_on_which_runs_complete_does_not_spoil_every_job(study: Study) -> None:
    study.ends("n1", "exit code 1")
    study.ends("n1")
    study.ends("n1", "exit code 1")
    assert study.avoided == set()


def test_of_several_nodes_the_one_that_failed_is_meant(study: Study) -> None:
    study.ends("n[1-3]", "killed by signal 9 (SIGKILL)", node=1)
    study.ends("n[2,4]", "killed by signal 9 (SIGKILL)", node=0)
    assert study.avoided == {"n2"}


@pytest.mark.parametrize("state", ["cancelled", "interrupted"])
def test_ends_that_are_no_failures_do_not_count(study: Study, state: str) -> None:
    for _ in range(3):
        study.ends("n1", "whatever", state=state)
    assert study.avoided == set()


def test_a_node_is_avoided_as_soon_as_slurm_lists_its_nodes(
    study: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "results/bed/x/run"
    folder.mkdir(parents=True)
    (folder / "job.sbatch").write_text("#!/bin/bash\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    stand_in(tmp_path / "bin", "sinfo", "echo 'sinfo: error: Invalid user' >&2; exit 1")
    for _ in range(LEAST_FAILURES):
        study.ends("n1", "exit code 1")
    study.bad.act({})
    assert study.bad.excluded(folder) == ""
    assert "jobs avoid the same nodes as before (Invalid user)" in capsys.readouterr().err
    rows = [
        ("cpu", "cpu*", name, "4", "1000", "(null)", "", "idle", "none") for name in ("n1", "n2")
    ]
    answering(tmp_path / "bin", "sinfo", table(NODE_FIELDS, rows))
    study.bad.act({})
    assert study.bad.excluded(folder) == "n1"
    assert capsys.readouterr().err.startswith("n1: several runs failed on this node")


def nodes(*names: str, state: str = "idle") -> list[Node]:
    return [Node("cpu", True, name, 4, 1000, {}, frozenset(), state, "") for name in names]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", "n1"),
        ("#SBATCH --exclude=n9", "n9,n1"),
        ("#SBATCH --nodes=3", "n1"),
        ("#SBATCH --nodes=4", ""),
        ("#SBATCH --nodes=3\n#SBATCH --exclude=n[2-4]", "n[2-4]"),
        ("#SBATCH --partition=none", ""),
    ],
)
def test_never_so_many_are_excluded_that_the_job_cannot_start(
    tmp_path: Path, script: str, expected: str
) -> None:
    folder = tmp_path / "results/bed/x/run"
    folder.mkdir(parents=True)
    (folder / "job.sbatch").write_text(f"#!/bin/bash\n{script}\n")
    there = nodes("n1", "n2", "n3", "n4") + nodes("n5", state="down*")
    assert excluded(folder, {"n1"}, there) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[08-10,12]", ["n08", "n09", "n10", "n12"]),
        ("a,b[1-2]c,d", ["a", "b1c", "b2c", "d"]),
        ("r[1-2]n[3-4]", ["r1n3", "r1n4", "r2n3", "r2n4"]),
        ("n[1-2]-ib,c.site.org", ["n1-ib", "n2-ib", "c.site.org"]),
        ("(null)", []),
    ],
)
def test_lists_of_nodes_are_read_as_slurm_writes_them(text: str, expected: list[str]) -> None:
    assert hostnames(text) == expected
