"""Train nothing: in the fortieth step rank 1 leaves out an allreduce, and all wait for each other."""

import os
import time
from contextlib import suppress
from pathlib import Path

import argosy_steps
import horovod.torch as hvd
import torch


def go_last() -> None:
    """Let the tests beside it go first: Horovod waits by asking again and again, on all cores."""
    os.nice(19)
    # A rank is a session, and Linux gives each a niceness of its own, which ten a second may change.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


hvd.init()
steps = argosy_steps.Recorder()
for step in range(100):
    with steps.step(samples=8):
        time.sleep(0.05)
        # Where each rank waits for ever. Steps before are not slowed, by which silence is judged.
        if (hvd.rank(), step) == (1, 41):
            go_last()
        hvd.allreduce(torch.ones(4), name="gradient")
        if (hvd.rank(), step) == (0, 40):
            go_last()
        if hvd.rank() == 0 or step != 40:
            hvd.allreduce(torch.ones(1), name="flag")
