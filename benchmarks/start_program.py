"""What a training program does before its first step, with the time of each part as a metric (unix)."""

import time

BEGUN = time.time()

import argosy_steps  # noqa: E402
import horovod.torch as hvd  # noqa: E402
import torch  # noqa: E402

IMPORTED = time.time()
hvd.init()
INITIALISED = time.time()
hvd.allreduce(torch.ones(1), name="first")

steps = argosy_steps.Recorder()
with steps.step(samples=1):
    FIRST_STEP = time.time()
for name, value in (
    ("begun", BEGUN),
    ("imported", IMPORTED),
    ("initialised", INITIALISED),
    ("first_step", FIRST_STEP),
):
    steps.metric(name, value)
