"""Inception-v3: Szegedy et al., CVPR 2016, arXiv:1512.00567, for images of 299 pixels.

23.8 million parameters, without the auxiliary classifier, which has 3.3 more.
"""

import torch
from torch import nn


class Branches(nn.Module):
    """Branches of the same images, one behind the other in channels."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, images):
        return torch.cat([branch(images) for branch in self.branches], 1)


def inception_v3(classes=1000):
    return nn.Sequential(
        _convolution(3, 32, 3, stride=2),
        _convolution(32, 32, 3),
        _convolution(32, 64, 3, padding=1),
        nn.MaxPool2d(3, 2),
        _convolution(64, 80, 1),
        _convolution(80, 192, 3),
        nn.MaxPool2d(3, 2),
        *(_module_5(channels, pooled) for channels, pooled in ((192, 32), (256, 64), (288, 64))),
        _reduction_to_17(288),
        *(_module_6(768, width) for width in (128, 160, 160, 192)),
        _reduction_to_8(768),
        *(_module_7(channels) for channels in (1280, 2048)),
        nn.AdaptiveAvgPool2d(1),
        nn.Dropout(),
        nn.Flatten(),
        nn.Linear(2048, classes),
    )


def _module_5(channels, pooled):
    """Figure 5: the 5x5 of GoogLeNet as two 3x3."""
    return Branches(
        _convolution(channels, 64, 1),
        nn.Sequential(_convolution(channels, 48, 1), _convolution(48, 64, 5, padding=2)),
        nn.Sequential(
            _convolution(channels, 64, 1),
            _convolution(64, 96, 3, padding=1),
            _convolution(96, 96, 3, padding=1),
        ),
        _pooled(channels, pooled),
    )


def _reduction_to_17(channels):
    return Branches(
        _convolution(channels, 384, 3, stride=2),
        nn.Sequential(
            _convolution(channels, 64, 1),
            _convolution(64, 96, 3, padding=1),
            _convolution(96, 96, 3, stride=2),
        ),
        nn.MaxPool2d(3, 2),
    )


def _module_6(channels, width):
    """Figure 6: 7x7 as 1x7 and 7x1."""
    return Branches(
        _convolution(channels, 192, 1),
        nn.Sequential(_convolution(channels, width, 1), *_line(width, width), *_column(width, 192)),
        nn.Sequential(
            _convolution(channels, width, 1),
            *_column(width, width),
            *_line(width, width),
            *_column(width, width),
            *_line(width, 192),
        ),
        _pooled(channels, 192),
    )


def _reduction_to_8(channels):
    return Branches(
        nn.Sequential(_convolution(channels, 192, 1), _convolution(192, 320, 3, stride=2)),
        nn.Sequential(
            _convolution(channels, 192, 1),
            *_line(192, 192),
            *_column(192, 192),
            _convolution(192, 192, 3, stride=2),
        ),
        nn.MaxPool2d(3, 2),
    )


def _module_7(channels):
    """Figure 7: the last 3x3 of a branch as 1x3 beside 3x1."""
    return Branches(
        _convolution(channels, 320, 1),
        nn.Sequential(_convolution(channels, 384, 1), _both(384)),
        nn.Sequential(
            _convolution(channels, 448, 1), _convolution(448, 384, 3, padding=1), _both(384)
        ),
        _pooled(channels, 192),
    )


def _both(channels):
    return Branches(
        _convolution(channels, channels, (1, 3), padding=(0, 1)),
        _convolution(channels, channels, (3, 1), padding=(1, 0)),
    )


def _pooled(channels, filters):
    return nn.Sequential(nn.AvgPool2d(3, 1, padding=1), _convolution(channels, filters, 1))


def _line(channels, filters):
    return [_convolution(channels, filters, (1, 7), padding=(0, 3))]


def _column(channels, filters):
    return [_convolution(channels, filters, (7, 1), padding=(3, 0))]


def _convolution(channels, filters, size, **shape):
    return nn.Sequential(
        nn.Conv2d(channels, filters, size, bias=False, **shape),
        nn.BatchNorm2d(filters, eps=0.001),
        nn.ReLU(inplace=True),
    )
