"""AlexNet in one tower: Krizhevsky, "One weird trick for parallelizing convolutional neural networks".

arXiv:1404.5997, 2014, as it is usually built: without response normalisation. 61.1 million parameters.
"""

from torch import nn


def alexnet(classes=1000):
    return nn.Sequential(
        *_convolution(3, 64, kernel_size=11, stride=4, padding=2),
        nn.MaxPool2d(3, 2),
        *_convolution(64, 192, kernel_size=5, padding=2),
        nn.MaxPool2d(3, 2),
        *_convolution(192, 384, kernel_size=3, padding=1),
        *_convolution(384, 256, kernel_size=3, padding=1),
        *_convolution(256, 256, kernel_size=3, padding=1),
        nn.MaxPool2d(3, 2),
        nn.AdaptiveAvgPool2d(6),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(256 * 6 * 6, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, classes),
    )


def _convolution(channels, filters, **shape):
    return nn.Conv2d(channels, filters, **shape), nn.ReLU(inplace=True)
