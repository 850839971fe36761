"""All steps of a benchmark, and the rate that it prints."""

import itertools
import math
import statistics
import time

GROUPS = 10
"""Of steps, whose rates give the spread that is printed."""


def train(training, batches, options, steps):
    """Make all steps; seconds of each one after the warm-up, from the end of the one before.

    Args:
        training: its `step(step, batch)` makes one and returns the loss.
        batches: at least as many as there are steps.
        options: of the command line.
        steps: argosy_steps' recorder.
    """
    ends = []
    for number, batch in zip(range(options.warm_up + options.steps), batches, strict=False):
        if number == options.warm_up:
            if training.rank == 0:
                print(f"measuring {options.steps} steps after {number}", flush=True)
            ends.append(time.perf_counter())
        with steps.step(samples=options.batch_size) as step:
            loss = training.step(step, batch)
        if number >= options.warm_up:
            ends.append(time.perf_counter())
        if not math.isfinite(loss):
            raise SystemExit(f"step {number}: the loss is {loss}; lower --learning-rate")
    return [end - begin for begin, end in itertools.pairwise(ends)]


def rate_line(samples, seconds, devices):
    """Return what such benchmarks print: images a second of all ranks, and the spread of groups of steps.

    Args:
        samples: of all ranks in a step.
        seconds: of each step.
        devices: such as `4 GPU`.
    """
    length = max(1, len(seconds) // GROUPS)
    groups = [seconds[place : place + length] for place in range(0, len(seconds), length)]
    rates = [samples * len(group) / sum(group) for group in groups]
    mean = samples * len(seconds) / sum(seconds)
    return f"Total img/sec on {devices}(s): {mean:.1f} +-{1.96 * statistics.pstdev(rates):.1f}"
