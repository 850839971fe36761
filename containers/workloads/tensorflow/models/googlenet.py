"""GoogLeNet: Szegedy et al., CVPR 2015, arXiv:1409.4842, table 1, without its two auxiliary classifiers.

7.0 million parameters. It has no batch normalisation, which came later.
"""

import tensorflow as tf

from .layers import classified, convolution, layers, relu

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


def googlenet(image_size, classes=1000):
    inputs = layers.Input((image_size, image_size, 3))
    found = _normalised(_pool(_convolution(inputs, 64, 7, 2)))
    found = _normalised(_convolution(_convolution(found, 64, 1), 192, 3))
    for stage in STAGES:
        found = _pool(found)
        for filters in stage:
            found = _inception(found, filters)
    found = layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(found))
    return tf.keras.Model(inputs, classified(found, classes))


def _inception(images, filters):
    """Four branches of the same images, one behind the other in channels."""
    one, reduced3, three, reduced5, five, pooled = filters
    branches = [
        _convolution(images, one, 1),
        _convolution(_convolution(images, reduced3, 1), three, 3),
        _convolution(_convolution(images, reduced5, 1), five, 5),
        _convolution(layers.MaxPool2D(3, 1, padding="same")(images), pooled, 1),
    ]
    return layers.Concatenate()(branches)


def _pool(images):
    return layers.MaxPool2D(3, 2, padding="same")(images)


def _normalised(images):
    """Local response normalisation over 5 channels, as PyTorch's defaults have it."""

    def normalise(each):
        return tf.nn.local_response_normalization(each, 2, 1.0, 1e-4 / 5, 0.75)

    # There is none for half precision.
    return layers.Lambda(normalise, dtype="float32")(images)


def _convolution(images, filters, size, stride=1):
    return relu(convolution(images, filters, size, stride, padding=size // 2))
