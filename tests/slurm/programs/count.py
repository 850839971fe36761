"""Counts instead of learning: short steps, and a checkpoint at every tenth, as a program would."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

import argosy_steps

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--seconds", type=float, default=0.1)
parser.add_argument("--last-save-seconds", type=float, default=0.0)
parser.add_argument("--worker", action="store_true", help="fail when a process beside it is killed")
options = parser.parse_args()

steps = argosy_steps.Recorder()
done = 0
if steps.restored:
    done = json.loads(Path(steps.restored, "count.json").read_text())
    print(f"continued after {done} steps", flush=True)


def save():
    with steps.checkpoint() as folder:
        Path(folder, "count.json").write_text(json.dumps(done))


def fail(number, frame):
    raise RuntimeError("a worker was killed")


if options.worker:
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(600)
    # As the data loader of PyTorch does.
    signal.signal(signal.SIGCHLD, fail)
first = os.environ["ARGOSY_RANK"] == "0"
while done < options.steps:
    with steps.step(samples=1):
        time.sleep(options.seconds)
    done += 1
    if first and done % 10 == 0:
        save()
    if steps.interrupted and done < options.steps:
        if first:
            time.sleep(options.last_save_seconds)
            save()
        sys.exit(argosy_steps.INTERRUPTED_EXIT)
steps.metric("test_accuracy", 1.0)
