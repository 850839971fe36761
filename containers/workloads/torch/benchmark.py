"""Measure the training of a published model on synthetic images, by Horovod or DDP, on any number of ranks.

Each rank has a batch of its own, made once, so that nothing is loaded: weak scaling. All steps are
recorded with their phases; the line that such benchmarks print, `Total img/sec on N …`, is of those after
the warm-up.
"""

import argparse
import math
import resource
import statistics
import time

import argosy_layers
import argosy_steps
import data_parallel
import torch
from models import IMAGE_SIZES, MODELS
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

PRECISIONS = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}
GROUPS = 10
"""Of steps, whose rates give the spread that is printed."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--batch-size", type=positive, default=32, help="of each rank")
    parser.add_argument(
        "--image-size", type=positive, help="pixels of a side; left out: as in the model's paper"
    )
    parser.add_argument("--classes", type=positive, default=1000)
    parser.add_argument("--steps", type=positive, default=100, help="after the warm-up")
    parser.add_argument("--warm-up", type=int, default=10, help="steps that are not in the rate")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--learning-rate", type=float, default=0.001, help="of one rank")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: a number above 0 is needed")
    return number


def find_device(ranks):
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(ranks.local_rank % torch.cuda.device_count())
    return torch.device("cuda")


def build(options, image_size):
    sized = {"image_size": image_size} if options.model == "vit_small" else {}
    return MODELS[options.model](options.classes, **sized)


def floating_point_operations(options, image_size):
    """Of one sample's forward and backward pass: multiplications and additions, counted, not computed."""
    with torch.device("meta"):
        model = build(options, image_size).eval()
        image = torch.empty(1, 3, image_size, image_size)
        with FlopCounterMode(display=False) as counter:
            model(image).sum().backward()
    return counter.get_total_flops()


class Training:
    """A model with one batch, which is the same in every step."""

    def __init__(self, options, image_size, ranks, steps):
        self.ranks, self.device = ranks, find_device(ranks)
        self.dtype = PRECISIONS[options.precision]
        model = build(options, image_size).to(self.device)
        # Convolutions follow the images; weights in that layout would have gradients that Horovod refuses.
        layout = torch.channels_last if options.channels_last else torch.contiguous_format
        self.images = torch.randn(options.batch_size, 3, image_size, image_size, device=self.device)
        self.images = self.images.contiguous(memory_format=layout)
        self.labels = torch.randint(options.classes, (options.batch_size,), device=self.device)
        optimizer = torch.optim.SGD(
            model.parameters(), lr=options.learning_rate * ranks.size, momentum=0.9
        )
        self.layers = argosy_layers.LayerTimes(steps, model.named_parameters())
        self.model, self.optimizer = ranks.parallel(model, optimizer)
        # Gradients of half precision are too small for it, unless they are enlarged.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=options.precision == "fp16")

    def step(self, step):
        """Make one step; the loss."""
        with step.phase("forward"):
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
                loss = nn.functional.cross_entropy(self.model(self.images), self.labels)
            self.wait()
        with self.ranks.backward(step), self.layers.backward():
            self.scaler.scale(loss).backward()
            self.wait()
        with self.ranks.update(step):
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            self.wait()
        return loss.item()

    def wait(self):
        """Let the device finish: a phase is over when its work is done, not when it is asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def train(training, options, steps):
    """Make all steps; seconds of each one after the warm-up."""
    seconds = []
    for number in range(options.warm_up + options.steps):
        began = time.perf_counter()
        with steps.step(samples=options.batch_size) as step:
            loss = training.step(step)
        if number >= options.warm_up:
            seconds.append(time.perf_counter() - began)
        if not math.isfinite(loss):
            raise SystemExit(f"step {number}: the loss is {loss}; lower --learning-rate")
    return seconds


def say_rate(options, seconds, training):
    """Print images per second of all ranks, and how far the rates of groups of steps scatter."""
    size, length = training.ranks.size, max(1, len(seconds) // GROUPS)
    groups = [seconds[place : place + length] for place in range(0, len(seconds), length)]
    rates = [size * options.batch_size * len(group) / sum(group) for group in groups]
    mean = size * options.batch_size * len(seconds) / sum(seconds)
    spread = 1.96 * statistics.pstdev(rates)
    name = "GPU" if training.device.type == "cuda" else "CPU"
    print(f"Total img/sec on {size} {name}(s): {mean:.1f} +-{spread:.1f}", flush=True)


def peak_memory(device):
    """Bytes that this rank has used at most: of the GPU, or without one of the node."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    options = parse_arguments()
    ranks = data_parallel.start()
    steps = argosy_steps.Recorder()
    torch.manual_seed(options.seed + ranks.rank)
    image_size = options.image_size or IMAGE_SIZES.get(options.model, 224)
    try:
        training = Training(options, image_size, ranks, steps)
        seconds = train(training, options, steps)
    except torch.OutOfMemoryError as problem:
        raise SystemExit(
            f"--batch-size {options.batch_size} does not fit into the GPU's memory: {problem}"
        ) from None
    steps.metric("flops_per_sample", floating_point_operations(options, image_size))
    steps.metric("peak_memory_bytes", peak_memory(training.device))
    if ranks.rank == 0:
        say_rate(options, seconds, training)
    ranks.end()


if __name__ == "__main__":
    main()
