"""Program of `argosy doctor --train`: add up numbers with Horovod, and wait for the warning.

Rank 0 writes the result to `trial.json` in the run's `output`. Runs in the user's image, with its Python
3.8 or newer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

PATIENCE_S = 170.0
"""Longer than the job's time limit: the warning comes before, or never."""


def main() -> int:
    began = time.time()
    warned: list[float] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: warned.append(time.time()))
    found: dict[str, Any] = {"ranks": 1, "sum": None, "framework": None}
    try:
        found.update(added_up())
    except Exception as error:
        found["problem"] = "%s: %s" % (type(error).__name__, error)
    found["exchanged_s"] = time.time() - began
    report(found)
    if "problem" in found:
        print(found["problem"], file=sys.stderr)
        return 1
    while not warned and time.time() - began < PATIENCE_S:
        time.sleep(0.2)
    report({**found, "warned_s": warned[0] - began if warned else None})
    return 0


def added_up() -> dict[str, Any]:
    """Return the sum over all ranks of rank + 1, and the framework."""
    try:
        import horovod.torch as hvd
        import torch

        hvd.init()
        total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum)
        return {"framework": "PyTorch", "ranks": hvd.size(), "sum": float(total[0])}
    except ImportError:
        import horovod.tensorflow as hvd
        import tensorflow

        hvd.init()
        total = hvd.allreduce(tensorflow.constant([hvd.rank() + 1.0]), op=hvd.Sum)
        return {"framework": "TensorFlow", "ranks": hvd.size(), "sum": float(total[0])}


def report(found: dict[str, Any]) -> None:
    if os.environ.get("HOROVOD_RANK", "0") == "0":
        with open("/job/output/trial.json", "w", encoding="utf-8") as file:
            json.dump(found, file)


if __name__ == "__main__":
    sys.exit(main())
