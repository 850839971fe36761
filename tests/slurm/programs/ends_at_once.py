"""Ends while a thread of Gloo waits for the interpreter, to give the tensors of a collective back."""

import sys
import time

import torch
import torch.distributed as dist


def compute(seconds, now=time.monotonic):
    end = now() + seconds
    while now() < end:
        pass


class Slow:
    """Takes longer to end than the thread waits before it asks whether the interpreter ends."""

    def __del__(self, compute=compute):
        compute(1)


dist.init_process_group("gloo")
slow = Slow()
gathered = [torch.empty(3) for _ in range(dist.get_world_size())]
dist.barrier()
sys.setswitchinterval(0.4)
# Gloo's thread does it meanwhile, and cannot end it without the interpreter.
dist.all_gather(gathered, torch.ones(3), async_op=True)
compute(0.2)
print("gathered at 1 samples/s", flush=True)
