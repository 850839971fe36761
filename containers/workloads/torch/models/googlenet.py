"""GoogLeNet: Szegedy et al., CVPR 2015, arXiv:1409.4842, table 1, without its two auxiliary classifiers.

7.0 million parameters. It has no batch normalisation, which came later.
"""

import torch
from torch import nn

# Of each module: 1x1, 3x3 after its reduction, 5x5 after its reduction, 1x1 after the pooling.
STAGES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


class Inception(nn.Module):
    """Four branches of the same images, one behind the other in channels."""

    def __init__(self, channels, filters):
        super().__init__()
        one, reduced3, three, reduced5, five, pooled = filters
        self.branches = nn.ModuleList(
            [
                _convolution(channels, one, 1),
                nn.Sequential(
                    _convolution(channels, reduced3, 1), _convolution(reduced3, three, 3)
                ),
                nn.Sequential(_convolution(channels, reduced5, 1), _convolution(reduced5, five, 5)),
                nn.Sequential(
                    nn.MaxPool2d(3, 1, padding=1, ceil_mode=True), _convolution(channels, pooled, 1)
                ),
            ]
        )

    def forward(self, images):
        return torch.cat([branch(images) for branch in self.branches], 1)


def googlenet(classes=1000):
    layers = [
        _convolution(3, 64, 7, 2),
        _pool(),
        nn.LocalResponseNorm(5),
        _convolution(64, 64, 1),
        _convolution(64, 192, 3),
        nn.LocalResponseNorm(5),
    ]
    channels = 192
    for stage in STAGES:
        layers.append(_pool())
        for filters in stage:
            layers.append(Inception(channels, filters))
            one, _, three, _, five, pooled = filters
            channels = one + three + five + pooled
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.4),
        nn.Linear(channels, classes),
    )


def _pool():
    return nn.MaxPool2d(3, 2, ceil_mode=True)


def _convolution(channels, filters, size, stride=1):
    return nn.Sequential(
        nn.Conv2d(channels, filters, size, stride, padding=size // 2), nn.ReLU(inplace=True)
    )
