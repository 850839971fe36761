"""What the agents make of killed ranks and agents, signals, full disks and strangers."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from agent_job import (
    ADDRESS,
    RECORD_A_STEP,
    RUNTIME,
    Job,
    another_user,
    require_namespaces,
)

from argosy.runtime.agent.transport.http_codec import Request
from argosy.runtime.agent.transport.http_server import Connection, Server, listen
from argosy.runtime.agent.transport.messages import Order
from argosy.runtime.agent.transport.peers import Endpoint
from argosy.runtime.agent.transport.signing import NONCE_HEADER, Signer, digest_of

# Which of two failures came first is told within a second.
pytestmark = pytest.mark.quiet

SLEEPER = "import os, time; print('pid', os.getpid()); time.sleep(600)"
# Has a helper in its own process group, and one that has run off to its own session.
PARENT = """
import os, subprocess, time
for alone in (False, True):
    subprocess.Popen(["sleep", "600"], start_new_session=alone)
print("pid", os.getpid())
time.sleep(600)
"""
# Does as Horovod does when a peer is gone: ends with exit code 1, a moment later.
PEERS = """
import os, socket, subprocess, sys, time
meeting = "\\0" + os.environ["ARGOSY_ATTEMPT"]
if os.environ["ARGOSY_RANK"] == "0":
    server = socket.socket(socket.AF_UNIX)
    server.bind(meeting)
    server.listen()
    peer = server.accept()[0]
else:
    peer = socket.socket(socket.AF_UNIX)
    while peer.connect_ex(meeting):
        time.sleep(0.02)
subprocess.Popen(["sleep", "600"])
print("pid", os.getpid())
peer.recv(1)
sys.exit("HorovodInternalError")
"""
RENDEZVOUS = {"PORT": "{rendezvous_port}"}
AT_THE_RENDEZVOUS = """
import os, time
print("rendezvous", os.environ["PORT"])
time.sleep(600)
"""
NOT_THE_HEADS = ": the answer is not the head's: it is not signed with the job's token"
VANISHED = "its agent vanished (no heartbeat for 5 s)"


def test_a_killed_rank_ends_the_job_and_is_named(job: Any) -> None:
    job = job(PARENT).start()
    pids = job.rank_pid(0), job.rank_pid(1)
    killed = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    assert job.wait() == [1, 1]
    assert time.monotonic() - killed < 10
    for node in (0, 1):
        failure = job.status(node)["failure"]
        assert (failure["node"], failure["rank"]) == (1, 1)
        assert failure["cause"].startswith("killed by signal 9 (SIGKILL)")
        assert "argosy: rank 1 (node 1): killed by signal 9 (SIGKILL)" in job.output(node)
        assert "Traceback" not in job.output(node)
    rank = job.status(1)["ranks"][0]
    assert (rank["exit_code"], rank["signal"]) == (None, 9)
    assert job.left_nothing()
    verdict = job.verdict()
    assert verdict.returncode == 1
    assert verdict.stdout.startswith("argosy: run run failed: rank 1 (node 1): killed by signal 9")
    assert not (job.folder / "result.json").exists()


@pytest.mark.parametrize("victim", [0, 1])
def test_the_killed_rank_is_the_cause_and_not_the_peer_that_failed_for_it(
    job: Any, victim: int
) -> None:
    job = job(PEERS).start()
    job.until_printed("[0] pid")
    os.kill(job.rank_pid(victim), signal.SIGKILL)
    assert job.wait() == [1, 1]
    assert [job.status(node)["failure"]["rank"] for node in (0, 1)] == [victim, victim]
    assert job.failures()[0].startswith("killed by signal 9")


def test_a_nonzero_exit_ends_the_job(job: Any) -> None:
    program = """
    import os, sys, time
    time.sleep(2 if os.environ["ARGOSY_RANK"] == "3" else 600)
    sys.exit(3)
    """
    job = job(program, ranks_per_node=2).start()
    assert job.wait() == [1, 1]
    assert job.failures() == ["exit code 3"] * 2
    assert job.status(0)["failure"]["rank"] == 3
    # Ended by the agent, and not counted as a failure.
    assert [rank["signal"] for rank in job.status(0)["ranks"]] == [15, 15]
    assert job.left_nothing()


def test_a_killed_agent_is_missed_and_its_ranks_end_with_it(job: Any) -> None:
    job = job(PEERS).start()
    job.rank_pid(1)
    killed = time.monotonic()
    job.agents[1].kill()
    assert job.wait() == [1, -9]
    assert time.monotonic() - killed < 10
    assert job.status(0)["failure"]["cause"] == VANISHED
    assert job.status(0)["failure"]["node"] == 1
    assert job.output(0).endswith(f"argosy: node 1: {VANISHED}\n")
    assert job.left_nothing()
    verdict = job.verdict()
    assert verdict.returncode == 1
    lost = f"the agent of node 1 was killed; see logs/{job.attempt}/node-1.log"
    assert f"failed: node 1: {lost}" in verdict.stdout


def test_ranks_end_with_their_agent_though_all_were_warned_before(job: Any) -> None:
    """A scheduler sends SIGTERM to every process of the job, the agent's guard among them."""
    job = job(SLEEPER, nodes=1).start()
    rank = job.rank_pid(0)
    agent = job.agents[0].pid
    (guard,) = children_of(agent) - {rank}
    os.kill(guard, signal.SIGTERM)
    time.sleep(0.2)
    job.agents[0].kill()
    assert job.left_nothing()


def children_of(pid: int) -> set[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(child) for child in text.split()}


def test_a_killed_head_is_missed(job: Any) -> None:
    job = job(SLEEPER).start()
    job.rank_pid(0)
    job.rank_pid(1)
    killed = time.monotonic()
    job.agents[0].kill()
    assert job.wait() == [-9, 1]
    assert time.monotonic() - killed < 10
    assert job.status(0)["state"] == "running"
    failure = job.status(1)["failure"]
    assert (failure["node"], failure["cause"]) == (0, VANISHED)
    assert job.left_nothing()
    assert "node 0: the agent of node 0 was killed" in job.verdict().stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_one_agent_cancels_the_job(job: Any, number: signal.Signals) -> None:
    job = job(SLEEPER).start()
    job.rank_pid(0)
    job.rank_pid(1)
    job.agents[1].send_signal(number)
    assert job.wait() == [130, 130]
    assert [job.status(node)["state"] for node in (0, 1)] == ["cancelled", "cancelled"]
    assert [job.status(node)["failure"] for node in (0, 1)] == [None, None]
    assert job.output(1).endswith(f"argosy: node 1: cancelled by {number.name}\n")
    assert job.left_nothing()
    assert job.verdict().returncode == 130


def test_a_rank_that_ignores_the_signal_is_killed(job: Any) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    job = job(deaf + SLEEPER, nodes=1).start()
    job.rank_pid(0)
    told = time.monotonic()
    job.agents[0].terminate()
    assert job.wait() == [130]
    assert 1.9 < time.monotonic() - told < 8
    assert job.status(0)["ranks"][0]["signal"] == 9


def test_ranks_that_get_the_cancelling_signal_before_their_agents_have_not_failed(
    job: Any,
) -> None:
    # scancel signals all processes of a step, in no order.
    job = job(PEERS).start()
    pids = job.rank_pid(0), job.rank_pid(1)
    os.kill(pids[0], signal.SIGTERM)
    time.sleep(0.2)
    for agent in job.agents.values():
        agent.terminate()
    assert job.wait() == [130, 130]


def test_a_missing_command_is_named(job: Any) -> None:
    job = job(["no-such-program", "x"]).start()
    assert job.wait() == [1, 1]
    assert job.failures() == ["command not found on this node: no-such-program"] * 2
    assert "Traceback" not in job.outputs()


def test_a_missing_command_of_an_image_with_an_entrypoint_names_it(job: Any) -> None:
    job = job(["no-such-program"], nodes=1).start(
        ARGOSY_ENTRYPOINT="/bin/bash -l", ARGOSY_ENGINE="apptainer"
    )
    assert job.wait() == [1]
    [said] = job.failures()
    assert said.startswith(
        "command not found in the image: no-such-program; its ENTRYPOINT is not run"
    )
    assert said.endswith("(/bin/bash -l)")


def test_commands_that_cannot_be_executed_are_named(job: Any, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    first = job([str(script)], nodes=1).start()
    assert first.wait() == [1]
    assert first.failures() == [f"command not executable on this node: {script}"]
    script.chmod(0o755)
    second = job([str(script)], nodes=1).start()
    assert second.wait() == [1]
    assert second.failures() == [f"command {script}: its interpreter is not on this node"]


def test_a_node_that_never_appears(job: Any) -> None:
    job = job(SLEEPER).start(0, ARGOSY_START_TIMEOUT="1")
    assert job.wait() == [1]
    assert job.status(0)["failure"]["cause"] == "its agent never started (waited 1 s)"
    assert job.status(0)["ranks"] == []


def test_a_head_that_never_appears(job: Any) -> None:
    job = job(SLEEPER).start(1, ARGOSY_START_TIMEOUT="1")
    assert job.wait() == [1]
    where = f"at {ADDRESS}:{job.port} by interface lo: connection refused"
    cause = f"the head (node 0) did not answer for 1 s {where}"
    assert job.status(1)["failure"]["cause"] == cause


def test_an_agent_of_another_job_is_refused_and_says_who_answers_there(job: Any) -> None:
    job = job(SLEEPER).start(0)
    job.start(1, ARGOSY_TOKEN="that-of-another-job", ARGOSY_START_TIMEOUT="2")
    job.agents[1].wait(20)
    cause = job.status(1)["failure"]["cause"]
    assert cause.startswith("the head (node 0) did not answer for 2 s at ")
    assert cause.endswith(NOT_THE_HEADS)
    assert "refused a request from 127.0.0.1: not signed" in job.output(0)


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=5)
    connection.request(method, path, body, headers)
    return connection.getresponse().status


def test_the_head_answers_nobody_without_the_token(job: Any) -> None:
    job = job(SLEEPER).start(0)
    job.until(lambda: _listens(job.port))
    signed = Signer("a guess").request_headers("POST", "/argosy/beat", "a-1", b"{}")
    for method, path in (("GET", "/scope/key"), ("PUT", "/scope/key"), ("POST", "/argosy/beat")):
        assert ask(job.port, method, path, b"{}") == 403
        assert ask(job.port, method, path, b"{}", **{"X-Argosy-Token": job.token}) == 403
        assert ask(job.port, method, path, b"{}", **signed) == 403
    stranger = "argosy: refused a request from 127.0.0.1: not signed with the job's token\n"
    assert job.output(0).count(stranger) == 1
    job.start(1)
    job.rank_pid(1)


def test_the_agent_of_a_node_answers_nothing_but_the_rendezvous(job: Any) -> None:
    job = job(AT_THE_RENDEZVOUS, nodes=1, rank_environment=RENDEZVOUS).start()
    port = _rendezvous_port(job)
    assert ask(port, "GET", "/scope/key") == 404
    assert ask(port, "PUT", "/scope/key", b"value") == 200
    assert ask(port, "GET", "/scope/key") == 200
    assert ask(port, "DELETE", "/scope/key") == 200
    assert ask(port, "GET", "/") == 400
    assert ask(port, "PUT", "/scope/key", b"", **{"Content-Length": str(1 << 30)}) == 413
    assert ask(port, "POST", "/argosy/beat", b"{}") == 404
    with socket.create_connection((ADDRESS, port)) as rank:
        rank.sendall(b"PUT /scope/key HTTP/1.1\r\n\r\n")
        assert rank.recv(12) == b"HTTP/1.1 411"


def test_another_user_of_the_machine_is_refused(job: Any) -> None:
    job = job(AT_THE_RENDEZVOUS, nodes=1, rank_environment=RENDEZVOUS).start()
    port = _rendezvous_port(job)
    program = (
        f"import http.client; c = http.client.HTTPConnection('127.0.0.1', {port});"
        "c.request('GET', '/scope/key'); print(c.getresponse().status)"
    )
    for become, answered in (([], "404"), (another_user(), "Connection reset by peer")):
        # This Python is one that any user may run.
        command = [*become, "/usr/bin/python3", "-c", program]
        answer = subprocess.run(command, capture_output=True, text=True, cwd="/")
        assert answered in answer.stdout + answer.stderr


def test_a_false_head_is_not_obeyed(job: Any) -> None:
    job = job(SLEEPER)
    service = FalseHead()
    with listen((ADDRESS, job.port), shared=True) as listener:
        Server(listener, service, print, connections=10).start()
        job.start(1, ARGOSY_START_TIMEOUT="2")
        assert job.wait() == [1]
    assert service.asked > 2
    cause = job.status(1)["failure"]["cause"]
    assert cause.startswith("the head (node 0) did not answer for 2 s at ")
    assert cause.endswith(NOT_THE_HEADS)
    assert job.status(1)["ranks"] == []


class FalseHead:
    """Has got the port but not the token, and wants the ranks to start."""

    asked = 0

    def welcome(self, peer: Endpoint) -> bool:
        return True

    def admit(self, connection: Connection, request: Request) -> int | None:
        return None

    def handle(self, connection: Connection, request: Request) -> None:
        self.asked += 1
        body = Order(start=True).encode()
        nonce = request.headers[NONCE_HEADER]
        connection.answer(200, body, Signer("a guess").answer_headers(nonce, 200, digest_of(body)))

    def turn(self) -> float:
        return 1.0


def test_a_head_that_stops_for_a_while_is_waited_for(job: Any) -> None:
    job = job(SLEEPER).start()
    job.rank_pid(0)
    job.rank_pid(1)
    job.agents[0].send_signal(signal.SIGSTOP)
    time.sleep(3)
    job.agents[0].send_signal(signal.SIGCONT)
    time.sleep(1)
    job.agents[1].terminate()
    assert job.wait() == [130, 130]


def _listens(port: int) -> bool:
    try:
        return ask(port, "GET", "/scope/key") == 403
    except OSError:
        return False


def _rendezvous_port(job: Job) -> int:
    job.until_printed("rendezvous ")
    return int(job.output(0).split("rendezvous ")[1].split()[0])


# The run's folder is a disk of 400 KiB; what is on it at the end is copied back.
ON_A_SMALL_DISK = """
cd "$ARGOSY_RUN_DIR" && mkdir disk && mount -t tmpfs -o size=400k none disk &&
cp run.json program.py disk && ARGOSY_RUN_DIR="$PWD/disk" "$@"; code=$?
"$1" "$VERDICT" disk "$ARGOSY_ATTEMPT" > verdict.txt 2>&1
cp -r disk/records disk/logs disk/attempts . ; exit $code
"""
ENDLESS_OUTPUT = "while True: print('x' * 1000)"
ENDLESS_STEPS = """
import argosy_steps
steps = argosy_steps.Recorder()
while True:
    with steps.step(samples=1):
        pass
"""
FULL_BY_OTHERS = """
import os, sys
try:
    with open(os.path.dirname(os.environ["ARGOSY_STEPS_FILE"]) + "/checkpoint", "wb") as file:
        while True:
            file.write(bytes(1024))
            file.flush()
except OSError:
    sys.exit(5)
"""


@pytest.mark.parametrize(
    ("program", "cause", "where"),
    [
        (ENDLESS_OUTPUT, "no space left on device while writing ", "rank-0.log"),
        (ENDLESS_STEPS, "no space left on device while writing ", "rank-0."),
        (FULL_BY_OTHERS, "exit code 5", ""),
    ],
)
def test_a_full_disk_is_told_from_the_space_kept_back(
    job: Any, program: str, cause: str, where: str
) -> None:
    require_namespaces()
    job = job(program, nodes=1)
    job.wrapper = ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, "sh"]
    job.start(VERDICT=str(RUNTIME / "verdict.py"))
    assert job.wait() == [1], job.outputs()
    status = job.status(0)
    assert status["state"] == "failed"
    assert cause in status["failure"]["cause"]
    assert where in status["failure"]["cause"]
    if where:
        assert status["failure"]["cause"].endswith(": free space and run again")
    assert "Traceback" not in job.output(0)
    assert job.output(0).splitlines()[-1].startswith("argosy: ")
    assert cause in (job.folder / "verdict.txt").read_text()
    assert json.loads((job.attempt_dir / "verdict.json").read_text())["state"] == "failed"


def test_as_the_first_process_of_a_container_it_reaps_orphans(job: Any) -> None:
    require_namespaces()
    program = """
    import os, subprocess, time
    for _ in range(5):
        subprocess.run(["sh", "-c", "sleep 0.1 & exec true"])
    time.sleep(0.5)
    states = [open(f"/proc/{pid}/stat").read().split()[2] for pid in os.listdir("/proc")
              if pid.isdigit()]
    print("as", os.getppid(), "among", sorted(states))
    """
    job = job(program + RECORD_A_STEP.replace("\n", "\n    "), nodes=1)
    job.wrapper = ["unshare", "-rpf", "--mount-proc", "--kill-child"]
    assert job.start().wait() == [0], job.outputs()
    # The agent, its guard and the rank.
    assert "[0] as 1 among ['R', 'S', 'S']" in job.output(0)


def test_the_port_stays_ours_until_the_head_listens(job: Any) -> None:
    job = job(SLEEPER)
    time.sleep(0.5)
    assert job.holder.poll() is None
    job.start(0)
    assert job.holder.wait(5) == 0
