"""Train nothing, at a known pace: a rank sleeps where it would compute, and really exchanges gradients.

Each layer's backward pass takes as long as is said, and then its gradient is there, as in any model.
"""

import argparse
import time

import argosy_layers
import argosy_steps
import horovod.torch as hvd
import torch
from torch import nn

FLOAT_BYTES = 4
POLL_S = 5e-4


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--forward", type=float, required=True, help="seconds")
    parser.add_argument(
        "--kib", type=int, nargs="+", required=True, help="of each layer's gradient"
    )
    parser.add_argument(
        "--backward", type=float, nargs="+", required=True, help="seconds of each layer"
    )
    return parser.parse_args()


class Pause(torch.autograd.Function):
    """Takes its time on the way back."""

    @staticmethod
    def forward(ctx, signal, weight, seconds):
        ctx.seconds, ctx.size = seconds, weight.numel()
        return signal.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient, torch.ones(ctx.size), None


class Layer(nn.Module):
    """A layer of so many bytes; its backward pass takes so many seconds."""

    def __init__(self, size, seconds):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size // FLOAT_BYTES))
        self.seconds = seconds

    def forward(self, signal):
        return Pause.apply(signal, self.weight, self.seconds)


def wait(optimizer):
    """Until all gradients are there. Horovod would keep a core busy, and here nodes share them."""
    while not all(hvd.poll(handle) for handle, _ in optimizer._handles.values()):
        time.sleep(POLL_S)


def main():
    options = parse_arguments()
    hvd.init()
    steps = argosy_steps.Recorder()
    pairs = zip(options.kib, options.backward, strict=True)
    # In the order of back-propagation on the command line; the forward pass goes the other way.
    layers = [Layer(kib * 1024, seconds) for kib, seconds in pairs]
    model = nn.Sequential(*reversed(layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    times = argosy_layers.LayerTimes(steps, model.named_parameters())
    signal = torch.zeros(1, requires_grad=True)
    for _ in range(options.steps):
        optimizer.zero_grad()
        with steps.step(samples=1) as step:
            with step.phase("forward"):
                time.sleep(options.forward)
                loss = model(signal).sum()
            with step.phase("backward"), times.backward():
                loss.backward()
            with step.phase("communication"):
                wait(optimizer)
                optimizer.synchronize()
            with step.phase("update"), optimizer.skip_synchronize():
                optimizer.step()


if __name__ == "__main__":
    main()
