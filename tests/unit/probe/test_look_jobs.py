"""What nodes wrote counts before what the scheduler says, and silence is nobody's fault."""

import json
from pathlib import Path

import pytest
from node_looks import look

from argosy.probe import look_jobs
from argosy.probe.look_jobs import Looked, look_at
from argosy.probe.looks import NOT_SEEN, Marks, Questions
from argosy.schedulers.base import NotNowError, SchedulerError, State, Status
from argosy.schedulers.batch_system import ClusterFacts, LookJob

RUNS, GONE = Status(State.RUNNING), Status(State.GONE)
WAITS = Status(State.PENDING, reason="waits for nodes to come free")
STUCK = Status(State.PENDING, reason="no budget", stuck="no budget")
SILENT = SchedulerError("no answer for 20 s")


class Answers:
    """A scheduler that gives these answers, the last one again and again; nodes have written by then."""

    def __init__(self, *answers: Status | SchedulerError, looks: int = 0, log: str = "") -> None:
        self.answers = [*answers]
        self._looks, self._log = looks, log
        self.cancelled: list[str] = []
        self.asked = 0
        self.refuses: SchedulerError | None = None

    def survey(self, account: str | None, say: object) -> ClusterFacts:
        raise NotImplementedError

    def cluster_name(self) -> str:
        raise NotImplementedError

    def look_options(self, *_: object) -> dict[str, str | None]:
        raise NotImplementedError

    def submit(self, job: LookJob) -> str:
        if self.refuses:
            raise self.refuses
        for number in range(self._looks):
            content = look(node=f"n{number}", number=number, nodes=2).model_dump_json()
            (job.folder / f"{number}.json").write_text(content)
        if self._log:
            (job.folder / "job.log").write_text(self._log)
        return "7"

    def status(self, job_id: str) -> Status:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, SchedulerError):
            raise answer
        return answer

    def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_jobs, "POLL_S", 0.01)
    monkeypatch.setattr(look_jobs, "SHOWN_LATE_S", 0.05)
    monkeypatch.setattr(look_jobs, "LONGEST_SILENCE_S", 0.2)


def looked(folder: Path, answers: Answers, wait_s: float = 0.05) -> Looked:
    job = LookJob({"nodes": "2"}, 2, 4, folder / "look")
    [found] = look_at({"cpu": job}, Questions(), answers, wait_s, lambda _: None)
    return found


def test_looks_that_are_there_need_no_answer(tmp_path: Path) -> None:
    answers = Answers(SILENT, looks=2)
    found = looked(tmp_path, answers)
    assert (len(found.looks), found.problem, answers.asked) == (2, "", 0)


def test_silence_is_not_counted_against_the_job(tmp_path: Path) -> None:
    found = looked(
        tmp_path, Answers(SILENT, SILENT, SILENT, GONE, log="argosy: n1 does not see /x\n")
    )
    assert (found.problem, found.is_fault) == ("n1 does not see /x", True)


@pytest.mark.parametrize(
    ("answers", "is_fault", "words"),
    [
        (Answers(SILENT), False, "the scheduler has not reported it for"),
        (Answers(WAITS), False, "was cancelled: waits for nodes to come free"),
        (Answers(RUNS), False, "its job ran for"),
        (Answers(STUCK), True, "waiting will not help its job: no budget"),
        (Answers(GONE), True, "its job wrote nothing into"),
        (
            Answers(
                GONE,
                log="bash: /x: no such file\nsrun: error: n1: task 0: Exited with exit code 3\n",
            ),
            True,
            "its job failed: bash: /x: no such file",
        ),
        (Answers(GONE, looks=1, log="argosy: n1 has no Python\n"), True, "n1 has no Python"),
    ],
)
def test_what_keeps_looks_away(
    tmp_path: Path, answers: Answers, is_fault: bool, words: str
) -> None:
    found = looked(tmp_path, answers)
    assert found.is_fault == is_fault
    assert words in found.problem
    assert bool(answers.cancelled) == (answers.answers[-1] != GONE)


@pytest.mark.parametrize(
    ("problem", "is_fault"), [(NotNowError("x"), False), (SchedulerError("x"), True)]
)
def test_a_job_that_was_not_taken(tmp_path: Path, problem: SchedulerError, is_fault: bool) -> None:
    answers = Answers(GONE)
    answers.refuses = problem
    found = looked(tmp_path, answers)
    assert (found.is_fault, found.problem) == (is_fault, "its job was not accepted: x")


def test_marks_are_left_checked_and_removed(tmp_path: Path) -> None:
    read, written, lost = (tmp_path / name for name in ("read", "written", "lost"))
    for each in (read, written, lost):
        each.mkdir()
    marks = Marks(
        "secret", {str(read): False, str(written): True, str(lost): True, "/proc/none": True}
    )
    assert marks.leave() == [str(read), str(written), str(lost)]
    (written / ".argosy-look-secret-0").write_text("secret")
    paths = {str(read): "", str(written): "", str(lost): "", "/proc/none": "is not there"}
    [found] = marks.checked([look(paths=paths)], 0.05)
    assert found.paths == {**paths, str(lost): NOT_SEEN}
    marks.remove(2)
    assert not [*tmp_path.rglob(".argosy-look-*")]


def test_questions_hold_what_was_marked(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    job = LookJob({}, 1, 1, tmp_path / "look")
    asked = Questions(paths={str(here): True, str(tmp_path / "gone"): False})
    look_at({"cpu": job}, asked, Answers(GONE, log="x"), 1, lambda _: None)
    content = json.loads((tmp_path / "look/questions.json").read_text())
    assert content["marked"] == [str(here)]
    assert not [*here.iterdir()]
