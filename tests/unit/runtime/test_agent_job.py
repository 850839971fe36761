"""Jobs that complete, or end as their program decides."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_job import RECORD_A_STEP, Job, jobs

from argosy.runtime.agent.hangs.processes import processes
from argosy.runtime.agent.processes.output import Console
from argosy.runtime.agent.processes.rank import Rank
from argosy.runtime.agent.settings import MeetingPoint, read_settings

MEETING = """
import http.client, os, time
import argosy_steps
rank, size = int(os.environ["RANK"]), int(os.environ["SIZE"])

def ask(method, key, body=None):
    connection = http.client.HTTPConnection(os.environ["HEAD"])
    connection.request(method, f"/global_/{key}", body)
    answer = connection.getresponse()
    return answer.status, answer.read()

steps = argosy_steps.Recorder()
assert ask("PUT", rank, b"address of %d" % rank)[0] == 200
for other in range(size):
    while ask("GET", other)[0] == 404:
        time.sleep(0.01)
    assert ask("GET", other) == (200, b"address of %d" % other)
with steps.step(samples=1):
    print(f"rank {rank} met {size}", {k for k in os.environ if "TOKEN" in k})
"""


# Like Horovod: each init meets all ranks in the same scope, and deletes its key at the end.
MEETING_AGAIN = """
import http.client, os, time
import argosy_steps
rank, size = int(os.environ["RANK"]), int(os.environ["SIZE"])

def ask(method, key, body=None):
    connection = http.client.HTTPConnection(os.environ["HEAD"])
    connection.request(method, key, body)
    answer = connection.getresponse()
    return answer.status, answer.read()

def meet(prefix, value):
    assert ask("PUT", f"{prefix}{rank}", value)[0] == 200
    found = []
    for other in range(size):
        while (answer := ask("GET", f"{prefix}{other}"))[0] == 404:
            time.sleep(0.002)
        found.append(answer[1])
    return found

with argosy_steps.Recorder().step(samples=1):
    for init in range(20):
        large = b"%d" % init + bytes(1 << 20) * (init == 0)
        assert meet("/global_/", large) == [large] * size, init
        meet(f"/barrier/{init}-", b"")  # nobody deletes before all have met
        assert ask("DELETE", f"/global_/{rank}")[0] == 200
        meet(f"/shutdown/{init}-", b"")  # nobody begins again before all are done
print("met again")
"""


OF_GLOO = {
    "RANK": "{rank}",
    "SIZE": "{size}",
    "HEAD": "{rendezvous_address}:{rendezvous_port}",
}


def test_two_nodes_of_two_ranks_meet_at_the_rendezvous_and_complete(job: Any) -> None:
    job = job(MEETING, ranks_per_node=2, rank_environment=OF_GLOO).start()
    assert job.wait() == [0, 0], job.outputs()
    for rank in range(4):
        assert f"[{rank}] rank {rank} met 4 set()\n" in job.output(rank // 2)
        assert (job.logs / f"ranks/rank-{rank}.log").read_text() == f"rank {rank} met 4 set()\n"
        lines = (job.records / f"rank-{rank}.jsonl").read_text().splitlines()
        header = json.loads(lines[0])
        assert (header["rank"], header["local_rank"], header["node"]) == (rank, rank % 2, rank // 2)
    status = job.status(1)
    assert status["state"] == "completed"
    assert status["failure"] is None
    assert status["started"] <= status["ranks"][0]["ended"] <= status["ended"]
    assert [(r["rank"], r["local_rank"], r["exit_code"]) for r in status["ranks"]] == [
        (2, 0, 0),
        (3, 1, 0),
    ]
    assert set(status["machine"]) == {"cpu_model", "cpus", "memory_bytes", "kernel", "engine"}
    assert job.output(1).startswith("argosy: node 1 of 2: agent started\n")
    assert job.output(1).endswith("argosy: node 1: completed\n")
    assert job.left_nothing()
    verdict = job.verdict()
    assert (verdict.returncode, verdict.stderr) == (0, "")
    assert verdict.stdout.startswith("argosy: run run completed after ")
    assert json.loads((job.folder / "result.json").read_text())["state"] == "completed"


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("http_proxy", "", "127.0.0.1"),
        ("HTTPS_PROXY", ".site, 10.0.0.1", ".site,10.0.0.1,127.0.0.1"),
        ("NO_SUCH_PROXY", ".site", ".site"),
    ],
)
def test_other_nodes_are_reached_without_a_proxy(
    job: Any, name: str, given: str, found: str
) -> None:
    program = "import os\nprint('found', repr(os.environ.get('NO_PROXY')))\n" + RECORD_A_STEP
    variables = {name: "http://127.0.0.9:3128", "NO_PROXY": given, "ALL": "{rank_endpoints}"}
    done = job(program, rank_environment=variables).start()
    assert done.wait() == [0, 0], done.outputs()
    assert done.outputs().count(f"found '{found}'\n") == 2


def test_a_second_init_finds_the_ranks_of_the_second_init(job: Any) -> None:
    job = job(MEETING_AGAIN, nodes=3, ranks_per_node=2, rank_environment=OF_GLOO).start()
    assert job.wait() == [0, 0, 0], job.outputs()
    assert job.outputs().count("met again") == 6


def test_files_are_private_and_nothing_temporary_stays(job: Any) -> None:
    job = job(RECORD_A_STEP, nodes=1).start()
    assert job.wait() == [0]
    names = sorted(path.name for path in job.records.iterdir())
    assert names == ["node-0.json", "rank-0.jsonl", "rank-0.steps", "telemetry-0.jsonl"]
    assert {path.stat().st_mode & 0o777 for path in job.records.iterdir()} == {0o600}
    assert (job.logs / "ranks/rank-0.log").stat().st_mode & 0o777 == 0o600
    assert job.records.stat().st_mode & 0o777 == 0o700


def test_a_timeline_is_private_though_horovod_would_make_it_for_all_to_read(job: Any) -> None:
    write = "import os\nos.umask(0o022)\nopen(os.environ['TIMELINE'], 'w').write('[')\n"
    variables = {"TIMELINE": "{timeline}"}
    job = job(RECORD_A_STEP + write, nodes=1, timeline=True, rank_environment=variables).start()
    assert job.wait() == [0], job.outputs()
    path = job.records / "timeline.json"
    assert path.read_text() == "["
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_program_that_measures_nothing_has_failed(job: Any) -> None:
    job = job("print('hello')").start()
    assert job.wait() == [1, 1]
    cause = job.failures()[0]
    assert cause.startswith("the program ended well but recorded no steps: use argosy_steps")
    assert job.output(0).endswith(f"argosy: node 0: {cause}\n")


INTERRUPTED_AT_ITS_END = """
import os, sys
if "ARGOSY_RESTORED" not in os.environ:
    exec({work!r})
    sys.exit(75)
"""


@pytest.mark.parametrize(
    ("work", "throughput", "measured"),
    [
        (RECORD_A_STEP, None, True),
        ("print('7 samples/s')", "([0-9.]+) samples/s", True),
        ("pass", None, False),
        ("print('no rate')", "([0-9.]+) samples/s", False),
    ],
)
def test_what_was_measured_before_an_interruption_counts(
    job: Any, work: str, throughput: str | None, measured: bool
) -> None:
    run = {
        "nodes": 1,
        "checkpoints": {"warning_s": 10, "requeues": 3},
        "throughput": throughput,
    }
    program = INTERRUPTED_AT_ITS_END.format(work=work)
    before = job(program, **run).start()
    assert before.wait() == [75], before.outputs()
    empty = job(program, **run).start(ARGOSY_RESUME=f"{before.attempt}/step-1")
    assert empty.wait() == [0 if measured else 1], empty.outputs()
    claim = {"schema_version": 2, "continues": {"attempt": before.attempt, "step": 1}}
    (empty.attempt_dir / "claim.json").write_text(json.dumps(claim))
    last = job(program, **run).start(ARGOSY_RESUME=f"{empty.attempt}/step-1")
    assert last.wait() == [0 if measured else 1], last.outputs()


def test_throughput_is_found_in_the_output_of_rank_0(job: Any) -> None:
    program = "print('Img/sec: 10.5 and Img/sec: 11\\nImg/sec: 12', end='')"
    job = job(program, ranks_per_node=2, throughput="Img/sec: (\\S+)").start()
    assert job.wait() == [0, 0], job.outputs()
    records = [json.loads(line) for line in (job.records / "printed.jsonl").open()]
    assert [record["samples_per_second"] for record in records] == [10.5, 11.0, 12.0]
    assert {record["kind"] for record in records} == {"printed"}
    assert all(record["at"] > 0 for record in records)


def test_numbers_of_the_last_rank_are_found_on_its_node(job: Any) -> None:
    program = "import os; print(os.environ['ARGOSY_NODE'], 'has 10 img/s')"
    asked = {"pattern": "([0-9.]+) img/s", "of": "rank", "rank": "last"}
    job = job(program, ranks_per_node=2, throughput=asked).start()
    assert job.wait() == [0, 0], job.outputs()
    [record] = [json.loads(line) for line in (job.records / "printed-3.jsonl").open()]
    assert record["samples_per_second"] == 40.0
    assert not (job.records / "printed.jsonl").exists()


PRINTING = """
import os, pathlib, time
rank, printing, waiting = os.environ["RANK"], "{}", "{}"
logs = pathlib.Path(os.environ["ARGOSY_RUN_DIR"], "logs", os.environ["ARGOSY_ATTEMPT"], "ranks")
log = logs / f"rank-{{printing}}.log"
while rank == waiting and not (log.exists() and "img" in log.read_text()):
    time.sleep(0.05)
print("10 img/s" if rank == printing else f"done {{rank}}")
"""
"""One rank prints a throughput, and another ends after it."""


@pytest.mark.parametrize("rank", ["last", "all", 1])
def test_a_searched_rank_of_another_node_that_prints_nothing_fails_the_run(
    job: Any, rank: str | int
) -> None:
    asked = {"pattern": "([0-9.]+) img/s", "rank": rank}
    job = job(PRINTING.format(0, 1), throughput=asked, rank_environment={"RANK": "{rank}"}).start()
    assert job.wait() == [1, 1], job.outputs()
    cause = job.failures()[0]
    assert "matched none of the 1 lines of rank 1" in cause
    assert "; the last one with a number is 'done 1'; see" in cause
    assert ("lines of rank 0: write throughput: {pattern: …, rank: first}" in cause) == (
        rank != "all"
    )


@pytest.mark.parametrize(("printing", "word"), [("3", "last"), ("1", "1")])
def test_the_rank_that_printed_is_named(job: Any, printing: str, word: str) -> None:
    job = job(
        PRINTING.format(printing, 0),
        ranks_per_node=2,
        throughput="([0-9.]+) img/s",
        rank_environment={"RANK": "{rank}"},
    ).start()
    assert job.wait() == [1, 1], job.outputs()
    cause = job.failures()[0]
    wanted = (
        f"of rank 0, but lines of rank {printing}: write throughput: {{pattern: …, rank: {word}}}"
    )
    assert wanted in cause


def test_what_is_no_rate_is_written_down_and_no_throughput_is_made_of_the_rest(job: Any) -> None:
    program = "print('rate nan samples/s, 7 samples/s, -inf samples/s')"
    job = job(program, nodes=1, throughput="([-0-9.a-z]+) samples/s").start()
    assert job.wait() == [1], job.outputs()
    records = [json.loads(line) for line in (job.records / "printed.jsonl").open()]
    told = [record.get("samples_per_second", record.get("text")) for record in records]
    assert told == ["nan samples/s", 7.0, "-inf samples/s"]
    [cause] = job.failures()
    assert "2 of the 3 matches" in cause and "nan, which is not a throughput" in cause


@pytest.mark.parametrize(
    ("numbers", "pattern", "said"),
    [
        # Thousands with a comma: only numbers below a thousand are readable.
        ("990 1,010 1,020 995 1,030", "([0-9.,]+) samples/s", "3 of the 5 matches"),
        ("990 1,234", "([0-9,]+) samples/s", "Not a number: 1,234, whose comma may separate"),
        ("999.5 1,234.5", "([0-9.]+) samples/s", "captures 234.5 of '1,234.5 samples"),
        ("950 1.2k 990 1.1k", "([0-9.]+)k? samples/s", "captures 1.2 of '1.2k samples/s'"),
        ("7 many 8", r"(\S+) samples/s", "1 of the 3 matches"),
        ("0 0.0", r"(\S+) samples/s", "all 2 numbers"),
        ("1234.5", r".*([0-9.]+) samples/s", "captures 5 of '1234.5 samples/s'"),
    ],
)
def test_no_throughput_is_made_of_some_of_the_numbers(
    job: Any, numbers: str, pattern: str, said: str
) -> None:
    program = f"for number in '{numbers}'.split(): print(number, 'samples/s')"
    job = job(program, nodes=1, throughput=pattern).start()
    assert job.wait() == [1], job.outputs()
    assert said in job.failures()[0]


def test_two_kinds_of_numbers_are_not_averaged(job: Any) -> None:
    program = """
    for line in ('images/sec: 150.0 +/- 0.0', 'images/sec: 150.0 +/- 0.0', 'total images/sec: 300.00'):
        print(line)
    """
    job = job(program, nodes=1, throughput="images/sec: ([0-9.]+)").start()
    assert job.wait() == [1], job.outputs()
    [cause] = job.failures()
    assert "two kinds of numbers" in cause
    assert "mean 150" in cause and "(1 number 300)" in cause


def test_numbers_of_a_program_that_records_its_steps_do_not_matter(job: Any) -> None:
    job = job(RECORD_A_STEP + "\nprint('nan samples/s')", nodes=1, throughput=r"(\S+) samples/s")
    job.start()
    assert job.wait() == [0], job.outputs()


def test_colours_and_backspaces_are_taken_off_before_the_pattern_is_looked_for(job: Any) -> None:
    program = r"""
    for number in range(3):
        print("\x1b[32m1\x1b[1m00.", number, "\x1b[0m samples/s", sep="")
        print("9 s\b\b\b10", number, ".5 samples/s", 3 * (" " * 2000 + "\b" * 2000), sep="")
        print("\x1b[0m" * 2000, "10", number, ".5 samples/s", sep="")
    """
    job = job(program, nodes=1, throughput=r"([0-9.]+) samples/s").start()
    assert job.wait() == [0], job.outputs()
    records = [json.loads(line) for line in (job.records / "printed.jsonl").open()]
    rates = [record["samples_per_second"] for record in records]
    assert rates == [100.0, 100.5, 100.5, 100.1, 101.5, 101.5, 100.2, 102.5, 102.5]


def test_a_loss_that_is_not_finite_is_noted_with_its_rank(job: Any) -> None:
    program = """
import os
for step in range(3):
    loss = "nan" if os.environ["ARGOSY_RANK"] == "1" and step else 0.5
    print(f"step {step} loss {loss}", flush=True)
"""
    job = job(program + RECORD_A_STEP, nodes=2).start()
    assert job.wait() == [0, 0], job.outputs()
    ranks = [json.loads((job.records / f"node-{n}.json").read_text())["ranks"][0] for n in (0, 1)]
    assert ranks[0]["not_finite"] is None
    assert ranks[1]["not_finite"]["text"] == "step 1 loss nan"


def test_a_throughput_pattern_that_never_matches_is_no_measurement(job: Any) -> None:
    program = "print('hello\\n\\nin 5 s\\n' + 5000 * 'x' + 'sec: 5')"
    job = job(program, nodes=1, throughput="sec: (.*)").start()
    assert job.wait() == [1]
    [cause] = job.failures()
    assert cause == (
        "the program ended well, but the experiment's 'throughput' pattern 'sec: (.*)' matched none "
        "of the 3 lines of rank 0 (1 of them, over 4 KiB, were not searched); the last one with a number "
        "is 'in 5 s'; "
        f"see logs/{job.attempt}/ranks/rank-0.log"
    )
    assert (job.folder / cause.rpartition("; see ")[2]).is_file()


def test_long_lines_that_are_not_searched_are_counted_beside_others(job: Any) -> None:
    program = "print('7 samples/s\\n' + 5000 * 'x' + '8 samples/s')"
    job = job(program, nodes=1, throughput="([0-9]+) samples/s").start()
    assert job.wait() == [0]
    records = [json.loads(line) for line in (job.records / "printed.jsonl").open()]
    assert [record["kind"] for record in records] == ["printed", "unsearched"]


def test_throughput_is_found_in_a_progress_bar(job: Any) -> None:
    program = """
    import sys, time
    for step in range(300):
        # Like tqdm on standard error: one line that overwrites itself, of any length.
        bar = "#" * 80
        print(f"\\r{step}%|{bar}| {step}/300 [00:0{step % 9}, {step + 1}.50it/s]", end="", file=sys.stderr)
    """
    job = job(program, nodes=1, throughput=r"([0-9.]+)it/s").start()
    assert job.wait() == [0], job.outputs()
    records = [json.loads(line) for line in (job.records / "printed.jsonl").open()]
    assert [record["samples_per_second"] for record in records] == [n + 1.5 for n in range(300)]
    assert (job.logs / "ranks/rank-0.log").read_bytes().count(b"\n") == 0


def test_output_is_kept_byte_for_byte_and_never_cut_within_a_character(job: Any) -> None:
    program = """
    import os
    os.write(1, "Grüße, 世界\\n".encode() + b"not UTF-8: \\xff\\n")
    os.write(2, b"to stderr\\n")
    for part in ("€" * 350_000, "x" * 500_000 + "\\n", "no end"):
        data = part.encode()
        while data:
            data = data[os.write(1, data):]
    """
    job = job(program, nodes=1).start()
    job.wait()
    raw = (job.logs / "ranks/rank-0.log").read_bytes()
    start = "Grüße, 世界\n".encode() + b"not UTF-8: \xff\nto stderr\n"
    assert raw == start + ("€" * 350_000 + "x" * 500_000 + "\nno end").encode()
    shown = (job.logs / "node-0.log").read_bytes()
    assert "[0] Grüße, 世界\n[0] not UTF-8: ".encode() in shown
    assert b"[0] no end\n" in shown
    pieces = shown.split(b"[0] to stderr\n")[1].split(b"[0] no end")[0].splitlines()
    assert b"".join(piece[4:] for piece in pieces).decode() == "€" * 350_000 + "x" * 500_000


def test_ranks_start_only_when_all_nodes_are_there(job: Any) -> None:
    job = job("print('started')\n" + RECORD_A_STEP).start(1)
    job.start(0, ARGOSY_START_TIMEOUT="30")
    assert job.wait() == [0, 0], job.outputs()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ARGOSY_TOKEN": "", "ARGOSY_NODE": ""}, "ARGOSY_NODE, ARGOSY_TOKEN not set: the agent"),
        ({"ARGOSY_NODE": "2"}, "ARGOSY_NODE is '2': not a whole number from 0 to 1"),
        ({"ARGOSY_HEAD_ADDRESS": "login"}, "ARGOSY_HEAD_ADDRESS: 'login' is not an IP address"),
        ({"ARGOSY_RUN_DIR": "/nowhere"}, "/nowhere/run.json: cannot be read: No such file"),
    ],
)
def test_a_wrong_environment_is_one_line(job: Any, change: dict[str, str], said: str) -> None:
    job = job("pass").start(0, **change)
    assert job.wait() == [2]
    assert job.output(0).startswith(f"argosy: {said}")
    assert job.output(0).count("\n") == 1


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"command": []}, "command: not a list of strings (it is [])"),
        ({"schema_version": 9}, "schema_version is 9, but this Argosy reads 2"),
        ({"rank_environment": {"A": "{rnk}"}}, "rank_environment: A: cannot fill in '{rnk}'"),
        (
            {"rank_environment": {"A": "{rank[0]}"}},
            "rank_environment: A: cannot fill in '{rank[0]}'",
        ),
        ({"start": ["a", "{rank.x}"]}, "launcher: cannot fill in '{rank.x}'"),
        ({"beside": {"each": [["{}"]]}}, "launcher: cannot fill in '{}'"),
        ({"throughput": "("}, "throughput: not a regular expression"),
        ({"throughput": "x"}, "throughput has 0 groups"),
        ({"metrics": {"loss": "("}}, "metrics.loss: not a regular expression"),
        ({"metrics": {"loss": "(a)(b)"}}, "metrics.loss has 2 groups: put one around the number"),
        ({"metrics": {"loss": 1}}, "metrics: not a map of strings"),
    ],
)
def test_a_wrong_run_file_is_one_line(job: Any, run: dict[str, Any], said: str) -> None:
    job = job("pass", **run).start(0)
    assert job.wait() == [2]
    assert job.output(0).startswith(f"argosy: {job.folder}/run.json: {said}")
    assert job.output(0).count("\n") == 1


def test_the_agent_runs_what_its_attempt_claimed(job: Any) -> None:
    job = job("print('claimed 7 samples/s')", throughput="([0-9.]+) samples/s", nodes=1)
    claimed = json.loads((job.folder / "run.json").read_text())
    claim = {"schema_version": 2, "unix": 1.0, "continues": None, "run": claimed}
    (job.attempt_dir / "claim.json").write_text(json.dumps(claim))
    planned_anew = {**claimed, "command": ["false"]}
    (job.folder / "run.json").write_text(json.dumps(planned_anew))
    assert job.start().wait() == [0], job.outputs()


def test_an_experiments_own_python_folders_stand_beside_the_recorder_s(
    job: Any, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/models.py").write_text("NAME = 'of the experiment'\n")
    program = RECORD_A_STEP + "import models; print(models.NAME)\n"
    variables = {"PYTHONPATH": str(tmp_path / "own")}
    job = job(program, nodes=1, rank_environment=variables).start()
    assert job.wait() == [0], job.outputs()
    assert "[0] of the experiment" in job.outputs()


# A rank that replaces files of its agent and recorder by pipes.
TRAPPING = (
    RECORD_A_STEP
    + """
import os
records = os.path.join(os.environ["ARGOSY_RUN_DIR"], "records", os.environ["ARGOSY_ATTEMPT"])
own = ("rank-0.steps", "rank-0.jsonl")
for name in (*own, "printed.jsonl", "node-0.json", "stacks-0.txt", "not-started-0.json"):
    path = os.path.join(records, name)
    if os.path.exists(path):
        os.unlink(path)
    os.mkfifo(path)
print("done", flush=True)
"""
)


def test_no_pipe_in_the_place_of_its_files_stops_an_agent(job: Any) -> None:
    job = job(TRAPPING, nodes=1).start()
    assert job.wait() == [1], job.outputs()
    assert job.failures()[0].startswith("the program ended well but recorded no steps")


LEAVING = """
    import os, sys, time
    import argosy_steps
    steps = argosy_steps.Recorder()
    print("pid", os.getpid(), flush=True)
    while not steps.interrupted:
        time.sleep(0.01)
    sys.exit(argosy_steps.INTERRUPTED_EXIT)
    """


def test_a_rank_that_has_saved_and_gone_before_its_agent_warns_it_is_noticed(
    job: Callable[..., Job],
) -> None:
    """The scheduler sends SIGTERM to all processes, and the rank may react before its agent."""
    one = job(LEAVING, checkpoints={"warning_s": 60, "requeues": 3}).start()
    ranks = [one.rank_pid(rank) for rank in (0, 1)]
    for agent in one.agents.values():
        agent.send_signal(signal.SIGSTOP)
    for pid in ranks:
        os.kill(pid, signal.SIGTERM)
        one.until(lambda pid=pid: "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text())
    for agent in one.agents.values():
        agent.send_signal(signal.SIGTERM)
        agent.send_signal(signal.SIGCONT)
    assert one.wait(10) == [75, 75]
    assert [one.status(node)["ranks"][0]["exit_code"] for node in (0, 1)] == [75, 75]


@pytest.mark.slow
def test_a_signal_that_is_passed_on_counts_once_and_one_that_comes_later_ends_the_job(
    tmp_path: Path,
) -> None:
    saving = LEAVING.replace("sys.exit(", "time.sleep(4); sys.exit(")
    codes = []
    for pause in (0.3, 2.5):
        folder = tmp_path / f"after {pause} s"
        folder.mkdir()
        with jobs(folder) as make:
            one = make(saving, nodes=1, checkpoints={"warning_s": 60, "requeues": 3}).start()
            one.rank_pid(0)
            one.agents[0].terminate()
            time.sleep(pause)
            one.agents[0].terminate()
            codes += one.wait()
    assert codes == [75, 130]


def test_warning_a_rank_that_has_ended_leaves_it_to_be_reaped(job: Callable[..., Job]) -> None:
    one = job("raise SystemExit(75)", checkpoints={"warning_s": 60, "requeues": 3})
    rank = Rank(
        read_settings(one.environment(0)),
        0,
        MeetingPoint(),
        {},
        console=Console(1, print),
        trouble=print,
        seen={},
    )
    os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
    rank.warn(processes())
    ended = os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None and ended.si_status == 75
    rank.collect()
    assert rank.interrupted
