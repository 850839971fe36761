"""Train nothing: each step sleeps for the given time of each phase."""

import argparse
import os
import time

import argosy_steps


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for part in ("compute", "interconnect", "network", "prepare", "fetch"):
        parser.add_argument(f"--{part}", type=float, required=True, help="seconds")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--warm", action="store_true")
    return parser.parse_args()


def main():
    options = parse_arguments()
    ranks, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    data = 0 if options.synthetic else options.prepare + (0 if options.warm else options.fetch)
    exchange = options.interconnect * (local > 1) + options.network * (ranks > local)
    steps = argosy_steps.Recorder()
    for _ in range(options.steps):
        with steps.step(samples=8) as step:
            with step.phase("data"):
                time.sleep(data)
            with step.phase("forward"):
                time.sleep(options.compute)
            with step.phase("communication"):
                time.sleep(exchange)


if __name__ == "__main__":
    main()
