"""VGG-16: Simonyan and Zisserman, ICLR 2015, arXiv:1409.1556, configuration D. 138.4 million parameters."""

from torch import nn

CONFIGURATION_D = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(classes=1000):
    layers, channels = [], 3
    for block in CONFIGURATION_D:
        for filters in block:
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(512 * 7 * 7, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, classes),
    )
