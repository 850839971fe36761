"""Downscale precipitation by a convolutional network, with Horovod and PyTorch, on any number of ranks.

The network is CNN1 of Baño-Medina, Manzanas and Gutiérrez, Geosci. Model Dev. 13, 2020, with 50, 25 and 10
channels: of fields on a coarse grid it says for each point of a fine one how likely rain is, and which
gamma distribution its amount has. Each rank reads training years of its own; a batch is divided among the
ranks, so that any number of them does the same training: strong scaling.
"""

import math

import argosy_steps
import horovod.torch as hvd
import torch
from fields import WET
from torch import nn
from training import CHANNELS, LEAST, Progress, check_loss, parse_arguments, read


class Network(nn.Module):
    """Three numbers for each point: the logit of rain, and the logarithms of shape and scale."""

    def __init__(self, fields, points):
        super().__init__()
        channels, *grid = fields
        layers = []
        for filters in CHANNELS:
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
            channels = filters
        self.layers = nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(channels * math.prod(grid), 3 * points)
        )

    def forward(self, fields):
        return self.layers(fields).chunk(3, dim=1)


def bernoulli_gamma_loss(predicted, rain):
    """Return the mean negative logarithm of the likelihood (Williams, Neural Netw. 11, 1998)."""
    logit, log_shape, log_scale = predicted
    wet = (rain >= WET).to(rain.dtype)
    amount = torch.clamp(rain - WET + LEAST, min=LEAST)
    shape = log_shape.exp()
    density = (shape - 1) * amount.log() - amount * torch.exp(-log_scale)
    density = density - shape * log_scale - torch.lgamma(shape)
    occurrence = nn.functional.binary_cross_entropy_with_logits(logit, wet, reduction="none")
    return (occurrence - wet * density).mean()


def train_step(model, optimizer, batch, step):
    fields, rain = map(torch.from_numpy, batch)
    optimizer.zero_grad()
    with step.phase("forward"):
        loss = bernoulli_gamma_loss(model(fields), rain)
    with step.phase("backward"):
        loss.backward()
    # What of the all-reduce the backward pass did not hide.
    with step.phase("communication"):
        optimizer.synchronize()
    with step.phase("update"), optimizer.skip_synchronize():
        optimizer.step()
    return loss.item()


def reduced(op):
    return lambda array: hvd.allreduce(torch.from_numpy(array), op=op).numpy()


def main():
    options = parse_arguments(__doc__)
    hvd.init()
    steps = argosy_steps.Recorder()
    data = read(options, hvd.rank(), hvd.size(), reduced(hvd.Sum), reduced(hvd.Min))
    torch.manual_seed(data.seed)
    model = Network(data.fields, data.points)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    held_out = torch.from_numpy(data.normal.of(data.held_out.predictors))
    progress = Progress(options, data, steps)
    for epoch in range(options.epochs):
        for batch in steps.loading(data.batches(epoch)):
            with steps.step(samples=len(batch[1]), epoch=epoch) as step:
                loss = train_step(model, optimizer, batch, step)
            check_loss(loss, epoch)
        if hvd.rank() == 0:
            with torch.no_grad():
                progress.show(epoch, loss, [each.numpy() for each in model(held_out)])
    if hvd.rank() == 0:
        progress.record()


if __name__ == "__main__":
    main()
