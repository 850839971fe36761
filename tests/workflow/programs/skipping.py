"""Train nothing: in the fortieth step rank 1 leaves out an allreduce, and all wait for each other."""

import time

import argosy_steps
import horovod.torch as hvd
import torch

hvd.init()
steps = argosy_steps.Recorder()
for step in range(100):
    with steps.step(samples=8):
        time.sleep(0.05)
        hvd.allreduce(torch.ones(4), name="gradient")
        if hvd.rank() == 0 or step != 40:
            hvd.allreduce(torch.ones(1), name="flag")
