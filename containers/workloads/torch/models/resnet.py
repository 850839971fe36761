"""ResNet-50 and -101: He et al., CVPR 2016, arXiv:1512.03385. 25.6 and 44.5 million parameters.

The stride of a stage is in its first 3x3 convolution, as in most benchmarks; the paper has it in the 1x1
before, with as many parameters.
"""

from torch import nn

EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = EXPANSION * width
        self.residual = nn.Sequential(
            *_normalised(channels, width, 1),
            nn.ReLU(inplace=True),
            *_normalised(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *_normalised(width, out, 1),
        )
        same = stride == 1 and channels == out
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*_normalised(channels, out, 1, stride))
        )
        self.last = nn.ReLU(inplace=True)

    def forward(self, images):
        return self.last(self.residual(images) + self.shortcut(images))


def resnet50(classes=1000):
    return _resnet((3, 4, 6, 3), classes)


def resnet101(classes=1000):
    return _resnet((3, 4, 23, 3), classes)


def _resnet(blocks, classes):
    layers = [*_normalised(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            layers.append(Bottleneck(channels, width, 2 if stage and not block else 1))
            channels = EXPANSION * width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


def _normalised(channels, filters, size, stride=1):
    convolution = nn.Conv2d(channels, filters, size, stride, padding=size // 2, bias=False)
    return convolution, nn.BatchNorm2d(filters)
