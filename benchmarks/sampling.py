"""`make bench-sampling`: training below an agent that samples, with steps recorded, beside training alone.

Two starts of one training differ by up to a tenth, so both are the same one: by turns its agent runs and
its steps are recorded, or the agent is stopped and nothing is recorded. One rank trains the digits by the
files of the image torch-cpu, without a container, on one core, which the agent has to share.
`switched_recorder.py` is what the program has for its recorder: it notes when steps begin in both.
"""

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
from agent_job import PYTHON, Job
from overhead import (
    PROGRAMS,
    RUNTIME,
    TRAINING_ENVIRONMENT,
    WORKLOADS,
    lock_of,
    native_training,
)
from taking_turns import (
    SETTLING_S,
    Pair,
    Training,
    Turn,
    in_turn,
    lasting,
    measured_pairs,
    pin_to_a_core,
    report,
    signal_all,
    undisturbed,
)

from argosy_images.store.store import Store

ROOT = Path(__file__).parents[1]
PAIRS = 10
BATCH = 32
TURNS = 30
TURN_S = 1.0 + SETTLING_S
"""The agent samples once a second."""
STEPS = 20_000
RECORDING = """
import argosy_steps, sys, time

def train(recorder, steps):
    began = time.perf_counter()
    for batch in recorder.loading(range(steps)):
        with recorder.step(samples=32, epoch=0) as step:
            for phase in ("forward", "backward", "communication", "update"):
                with step.phase(phase):
                    pass
    return time.perf_counter() - began

print(train(argosy_steps.Recorder(), int(sys.argv[1])))
"""


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    pin_to_a_core()
    agent_shares: list[float] = []
    pairs = measured_pairs(partial(by_turns, agent_shares), PAIRS)
    figures = report(pairs, "sampled", "alone")
    rate = statistics.median(turn.whole for pair in pairs for turn in pair["sampled"])
    print(json.dumps({**figures, **accounts(agent_shares, BATCH / rate)}))
    return 0


def accounts(agent_shares: Sequence[float], step_s: float) -> dict[str, float]:
    """Print and return what the parts take by themselves, of a core and of steps of `step_s`."""
    agent, recorder_s = statistics.mean(agent_shares), recording_s()
    print(
        f"by themselves: the agent {100 * agent:.2f} % of the core, the recorder "
        f"{1e6 * recorder_s:.0f} us of a step of {1e3 * step_s:.1f} ms, {100 * recorder_s / step_s:.2f} %"
    )
    return {"agent_share": agent, "recorder_s": recorder_s, "step_s": step_s}


def recording_s() -> float:
    """Seconds that a step takes which does nothing but to be recorded, with five phases."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        done = subprocess.run(
            [PYTHON, "-c", RECORDING, str(STEPS)],
            env={"PYTHONPATH": str(RUNTIME), "ARGOSY_STEPS_FILE": f"{folder}/rank-0.steps"},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout) / STEPS


def by_turns(agent_shares: list[float], number: int, folder: Path) -> Pair:
    """One training, which begins sampled; adds what share of a core its agent takes."""
    switch = folder / "switch"
    switch.write_bytes(b"1")
    turns: dict[str, list[Turn]] = {"sampled": [], "alone": []}
    with Training(below_an_agent, folder) as training:
        agents = [each for each in training.processes if not _trains(each)]
        before = cpu_s(agents)
        for turn in range(TURNS):
            for name in in_turn(turns, number + turn):
                sampled = name == "sampled"
                with switch.open("r+b") as file:
                    file.write(b"1" if sampled else b"0")
                signal_all(agents, signal.SIGCONT if sampled else signal.SIGSTOP)
                turns[name].append(lasting(TURN_S))
        agent_shares.append((cpu_s(agents) - before) / (TURNS * TURN_S))
        return undisturbed({name: training.rates(taken) for name, taken in turns.items()})


def below_an_agent(folder: Path) -> None:
    """Train as in a job of one rank."""
    digits = PROGRAMS["digits"]
    # What lies beside the program is found before the recorder that the agent offers.
    program = folder / "digits.py"
    shutil.copy(WORKLOADS / digits.path, program)
    digits = replace(digits, path=str(program))
    shutil.copy(Path(__file__).parent / "switched_recorder.py", folder / "argosy_steps.py")
    store = Store.of_project(ROOT)
    job = Job(folder, native_training(store, lock_of(digits), digits, folder), nodes=1)
    job.start(
        0,
        **TRAINING_ENVIRONMENT,
        SWITCH=str(folder / "switch"),
        STEPS_BEGIN=str(folder / "rank-0.steps"),
        RECORDER=str(RUNTIME / "argosy_steps.py"),
    )
    job.agents[0].wait()
    job.holder.kill()


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """That their threads have taken so far; what counts by clock ticks would miss short wakes."""
    threads = (path for each in processes for path in Path(f"/proc/{each.pid}/task").iterdir())
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _trains(process: psutil.Process) -> bool:
    return any(word.endswith("digits.py") for word in process.cmdline())


if __name__ == "__main__":
    sys.exit(main())
