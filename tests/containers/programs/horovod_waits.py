"""Measure how two ranks wait, and print rank 0's figures as JSON."""

import json
import os
import resource
import statistics
import time

os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"

import horovod.torch as hvd
import torch

TIMES = 40


def reduce(process_set=hvd.global_process_set):
    """Exchange a few numbers; return the seconds it took."""
    begin = time.perf_counter()
    hvd.allreduce(torch.ones(10), name="numbers", process_set=process_set)
    return time.perf_counter() - begin


def while_resting():
    """Count the context switches of a rank's threads in an idle second."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    time.sleep(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before


def while_waiting():
    """Return the processor seconds of one second of waiting for the other rank."""
    before = time.process_time()
    if hvd.rank() == 1:
        time.sleep(1)
    reduce()
    return time.process_time() - before


def after_rests():
    """Return the seconds of exchanges that follow a rest of both ranks."""
    taken = []
    for _ in range(TIMES):
        time.sleep(0.02)
        taken.append(reduce())
    return taken


def at_barriers_that_it_reaches_last():
    """Return the seconds of barriers that rank 0 reaches last."""
    taken = []
    for number in range(TIMES):
        if hvd.rank() == 0:
            time.sleep(0.004 * number)
        begin = time.perf_counter()
        hvd.barrier()
        taken.append(time.perf_counter() - begin)
    return taken


def in_a_set_of_its_own():
    """Return the seconds of rank 0's exchanges in a process set of its own."""
    alone = hvd.add_process_set([0])
    taken = [reduce(alone) for _ in range(TIMES)] if hvd.rank() == 0 else []
    hvd.barrier()
    hvd.remove_process_set(alone)
    return taken


def after_the_other_has_joined():
    """Return the seconds of rank 0's exchanges after rank 1 has joined."""
    taken = [reduce() for _ in range(TIMES)] if hvd.rank() == 0 else []
    hvd.join()
    return taken


def to_end():
    """Return the seconds that two ranks take to end after they began to rest."""
    hvd.barrier()
    time.sleep(0.02)
    begin = time.perf_counter()
    hvd.shutdown()
    return time.perf_counter() - begin


def main():
    hvd.init()
    rank = hvd.rank()
    reduce()
    found = {
        "switches_resting": while_resting(),
        "cpu_s_waiting": while_waiting(),
        "after_rests_s": statistics.median(after_rests()),
        "last_at_barrier_s": statistics.mean(at_barriers_that_it_reaches_last()),
        "own_set_s": statistics.median(in_a_set_of_its_own() or [0]),
        "joined_s": statistics.median(after_the_other_has_joined() or [0]),
        "ended_s": to_end(),
    }
    if rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
