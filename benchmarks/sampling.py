"""`make bench-sampling`: training below an agent that samples, with steps recorded, beside training alone.

Both run the digits by the files of the image torch-cpu, without a container, and take turns on one core
(`taking_turns.py`), which the agent has to share. Alone, the moments at which steps begin are noted by a
stand-in for the recorder that does nothing else.
"""

import json
import sys
from pathlib import Path

from agent_job import Job
from overhead import RUNTIME, natively, training_command, training_environment
from taking_turns import measured_pairs, pin_to_a_core, report

from argosy.images.lockfile import read_lock
from argosy.images.store import Store

ROOT = Path(__file__).parents[1]
PAIRS = 10
STAND_IN = """
import json, os, time
from contextlib import contextmanager

INTERRUPTED_EXIT = 0


class Recorder:
    restored = None
    interrupted = False
    records = False

    def __init__(self):
        self._file = open(os.environ["ARGOSY_STEPS_FILE"], "w", buffering=1 << 16)
        self._written = time.monotonic()

    def loading(self, loader):
        return loader

    @contextmanager
    def step(self, samples, epoch=0):
        start = time.monotonic()
        yield self
        self._file.write(f'{{"kind": "step", "start": {start}, "samples": {samples}, "epoch": {epoch}}}\\n')
        if start - self._written > 1:
            self._file.flush()
            self._written = start

    @contextmanager
    def phase(self, name):
        yield

    @contextmanager
    def checkpoint(self):
        yield os.getcwd()

    def __getattr__(self, name):
        return lambda *arguments, **named: None
"""


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    root = Store.of_project(ROOT).root(
        read_lock(ROOT / "resources/images/torch-cpu/image.lock").digest
    )
    pin_to_a_core()
    pairs = measured_pairs(
        {
            "sampled": lambda folder: below_an_agent(root, folder),
            "alone": lambda folder: alone(root, folder),
        },
        PAIRS,
    )
    print(json.dumps(report(pairs, "sampled", "alone")))
    return 0


def below_an_agent(root: Path, folder: Path) -> None:
    """Train as in a job of one rank."""
    job = Job(folder, training_command(root), nodes=1)
    (folder / "steps.jsonl").symlink_to(job.records / "rank-0.jsonl")
    job.start(0, **training_environment(root, RUNTIME))
    job.agents[0].wait()
    job.holder.kill()


def alone(root: Path, folder: Path) -> None:
    """Train with nothing else."""
    (folder / "argosy_steps.py").write_text(STAND_IN)
    natively(root, folder, recorder=folder)


if __name__ == "__main__":
    sys.exit(main())
