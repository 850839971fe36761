"""Time allreduces alone, of many sizes, so that Argosy can predict what they cost a training.

Several allreduces of one size go into one cycle of Horovod and follow each other there, unfused. The
time from the end of the first to the end of the last is that of the others: neither the wait for the
cycle is in it nor the exchange about what is ready, with which each cycle begins.
"""

import argparse
import os
import time

# Horovod reads these when it starts. A cycle that is long beside the time that a program takes to ask
# for all of them keeps them together.
os.environ.update(HOROVOD_FUSION_THRESHOLD="0", HOROVOD_CYCLE_TIME="10")

import argosy_steps
import horovod.torch as hvd
import torch

KIB = 1024
FLOAT_BYTES = 4
POLL_S = 1e-4
TWO_CYCLES_S = 0.02
UNTIL_A_CYCLE_S = 0.002


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [4 * 4**power for power in range(7)]
    parser.add_argument("--kib", type=int, nargs="+", default=sizes, help="message sizes, KiB")
    parser.add_argument("--repeats", type=int, default=10, help="repeats of each size")
    parser.add_argument("--warm-up", type=int, default=3, help="first repeats, not recorded")
    parser.add_argument(
        "--in-a-cycle", type=int, default=4, help="allreduces of a repeat, at least 2"
    )
    return parser.parse_args()


def allreduce_s(tensors):
    """Seconds of one allreduce of a tensor, on this rank."""
    hvd.barrier()
    # Then this rank rests. A cycle begins with what it asks for first, and all that follows is asked for
    # before it is time for the next one.
    time.sleep(TWO_CYCLES_S)
    first = hvd.allreduce_async(torch.zeros(1), name="first", op=hvd.Sum)
    time.sleep(UNTIL_A_CYCLE_S)
    handles = [
        hvd.allreduce_async_(tensor, name=f"{place} of {tensor.numel()}", op=hvd.Sum)
        for place, tensor in enumerate(tensors)
    ]
    ends = [ended(handle) for handle in handles]
    hvd.synchronize(first)
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def ended(handle):
    """When the operation was over; `synchronize`, in Horovod as released, keeps a core busy."""
    while not hvd.poll(handle):
        time.sleep(POLL_S)
    at = time.monotonic()
    hvd.synchronize(handle)
    return at


def main():
    options = parse_arguments()
    hvd.init()
    steps = argosy_steps.Recorder()
    device = f"cuda:{hvd.local_rank()}" if torch.cuda.is_available() else "cpu"
    for kib in options.kib:
        size = kib * KIB
        tensors = [
            torch.zeros(size // FLOAT_BYTES, device=device) for _ in range(options.in_a_cycle)
        ]
        for repeat in range(options.warm_up + options.repeats):
            seconds = allreduce_s(tensors)
            if repeat >= options.warm_up:
                steps.collective("allreduce", size, seconds)


if __name__ == "__main__":
    main()
