"""Data-parallel training by Horovod or by torch.distributed, whichever the ranks were launched for.

Both exchange gradients while the backward pass goes on; the phase `communication` of a step is the part of
it that the backward pass did not hide.
"""

import inspect
import os
import time
from contextlib import contextmanager

import torch
from torch.nn.parallel import DistributedDataParallel


def start():
    """Meet the other ranks."""
    return Distributed() if "TORCHELASTIC_RUN_ID" in os.environ else Horovod()


class Horovod:
    """Ranks of `launcher: horovod`, or of one's own horovodrun."""

    def __init__(self):
        import horovod.torch as hvd

        hvd.init()
        self.hvd = hvd
        self.rank, self.size, self.local_rank = hvd.rank(), hvd.size(), hvd.local_rank()
        self.optimizer = None

    def parallel(self, model, optimizer):
        """Return both, to be used instead of those given; all ranks begin with the weights of rank 0."""
        named = model.named_parameters()
        self.optimizer = self.hvd.DistributedOptimizer(optimizer, named_parameters=named)
        self.hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        self.hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)
        return model, self.optimizer

    @contextmanager
    def backward(self, step):
        """Time the backward pass, in a `with` statement that ends when the device has done it."""
        with step.phase("backward"):
            yield
        with step.phase("communication"):
            self.optimizer.synchronize()

    @contextmanager
    def update(self, step):
        """Time the optimizer's step."""
        with step.phase("update"), self.optimizer.skip_synchronize():
            yield

    def end(self):
        """Leave the others."""
        self.hvd.shutdown()


class Distributed:
    """Ranks of `launcher: torch`, or of torchrun: DistributedDataParallel."""

    def __init__(self):
        import torch.distributed as dist

        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        self.dist = dist
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.last_gradients = None

    def parallel(self, model, optimizer):
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        def exchange(group, bucket):
            if bucket.is_last():
                self.last_gradients = instant()
            return allreduce_hook(group, bucket)

        # Running means of batches stay those of each rank, as with Horovod.
        wrapped = DistributedDataParallel(model, **{buffer_option(): False})
        wrapped.register_comm_hook(None, exchange)
        return wrapped, optimizer

    @contextmanager
    def backward(self, step):
        with step.phase("backward"):
            yield
        # DDP waits for its exchange at the end of the pass, where nothing can be put between.
        exposed = seconds_since(self.last_gradients)
        step.phases["backward"] -= exposed
        step.phases["communication"] = exposed

    @contextmanager
    def update(self, step):
        with step.phase("update"):
            yield

    def end(self):
        self.dist.destroy_process_group()


def buffer_option():
    """Return what this torch calls the sending of buffers at each forward pass: renamed after 2.11."""
    options = inspect.signature(DistributedDataParallel).parameters
    return next(name for name in ("forward_sync_buffers", "broadcast_buffers") if name in options)


def instant():
    """Return now; on a GPU when it has done what it was given so far."""
    if not torch.cuda.is_available():
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def seconds_since(before):
    now = instant()
    if not torch.cuda.is_available():
        return now - before
    now.synchronize()
    return before.elapsed_time(now) / 1000
