"""Inception-v3: Szegedy et al., CVPR 2016, arXiv:1512.00567, for images of 299 pixels.

23.8 million parameters, without the auxiliary classifier, which has 3.3 more.
"""

import tensorflow as tf

from .layers import average_pool, classified, layers, max_pool, normalised, relu


def inception_v3(image_size, classes=1000):
    inputs = layers.Input((image_size, image_size, 3))
    found = _convolution(inputs, 32, 3, stride=2)
    found = _convolution(_convolution(found, 32, 3), 64, 3, padding=1)
    found = max_pool(found, 3, 2)
    found = max_pool(_convolution(_convolution(found, 80, 1), 192, 3), 3, 2)
    for pooled in (32, 64, 64):
        found = _module_5(found, pooled)
    found = _reduction_to_17(found)
    for width in (128, 160, 160, 192):
        found = _module_6(found, width)
    found = _reduction_to_8(found)
    for _ in range(2):
        found = _module_7(found)
    found = layers.Dropout(0.5)(layers.GlobalAveragePooling2D()(found))
    return tf.keras.Model(inputs, classified(found, classes))


def _module_5(images, pooled):
    """Figure 5: the 5x5 of GoogLeNet as two 3x3."""
    return _beside(
        _convolution(images, 64, 1),
        _convolution(_convolution(images, 48, 1), 64, 5, padding=2),
        _convolution(_reduced(images), 96, 3, padding=1),
        _pooled(images, pooled),
    )


def _reduction_to_17(images):
    return _beside(
        _convolution(images, 384, 3, stride=2),
        _convolution(_reduced(images), 96, 3, stride=2),
        max_pool(images, 3, 2),
    )


def _reduced(images):
    return _convolution(_convolution(images, 64, 1), 96, 3, padding=1)


def _module_6(images, width):
    """Figure 6: 7x7 as 1x7 and 7x1."""
    return _beside(
        _convolution(images, 192, 1),
        _column(_line(_convolution(images, width, 1), width), 192),
        _twice(_convolution(images, width, 1), width),
        _pooled(images, 192),
    )


def _twice(images, width):
    return _line(_column(_line(_column(images, width), width), width), 192)


def _reduction_to_8(images):
    once = _convolution(_convolution(images, 192, 1), 320, 3, stride=2)
    line = _column(_line(_convolution(images, 192, 1), 192), 192)
    return _beside(once, _convolution(line, 192, 3, stride=2), max_pool(images, 3, 2))


def _module_7(images):
    """Figure 7: the last 3x3 of a branch as 1x3 beside 3x1."""
    return _beside(
        _convolution(images, 320, 1),
        _both(_convolution(images, 384, 1)),
        _both(_convolution(_convolution(images, 448, 1), 384, 3, padding=1)),
        _pooled(images, 192),
    )


def _both(images):
    return _beside(
        _convolution(images, 384, (1, 3), padding=(0, 1)),
        _convolution(images, 384, (3, 1), padding=(1, 0)),
    )


def _beside(*branches):
    return layers.Concatenate()(list(branches))


def _pooled(images, filters):
    return _convolution(average_pool(images, 3, 1, padding=1), filters, 1)


def _line(images, filters):
    return _convolution(images, filters, (1, 7), padding=(0, 3))


def _column(images, filters):
    return _convolution(images, filters, (7, 1), padding=(3, 0))


def _convolution(images, filters, size, **shape):
    return relu(normalised(images, filters, size, **shape, epsilon=0.001))
