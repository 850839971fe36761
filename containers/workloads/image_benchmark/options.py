"""The options that both benchmarks have."""

import argparse


def parser(description, models, precisions):
    """Return a parser of them; `models` and `precisions` are the names of what may be chosen."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--model", choices=models, default="resnet50")
    found.add_argument("--batch-size", type=positive, default=32, help="samples of each rank")
    found.add_argument(
        "--image-size", type=positive, help="pixels of a side; default: the model's paper"
    )
    found.add_argument("--classes", type=positive, default=1000)
    found.add_argument(
        "--images",
        metavar="FOLDER",
        help="train on FOLDER/CLASS/NAME.jpg or .png; default: one batch of noise",
    )
    found.add_argument(
        "--loaders", type=positive, default=2, help="processes of each rank that read images"
    )
    found.add_argument("--steps", type=positive, default=100, help="steps after the warm-up")
    found.add_argument("--warm-up", type=int, default=10, help="first steps, not in the rate")
    found.add_argument("--precision", choices=precisions, default="fp32")
    found.add_argument("--learning-rate", type=float, default=0.001, help="rate of one rank")
    found.add_argument("--seed", type=int, default=1)
    return found


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: a number above 0 is needed")
    return number
