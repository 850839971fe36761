"""Layers with the padding of PyTorch, which is the same at both ends of a side."""

import numpy as np
import tensorflow as tf

layers = tf.keras.layers


def convolution(images, filters, size, stride=1, *, padding=0, bias=True):
    """Return a convolution; `size` and `padding` are numbers, or pairs of height and width."""
    return layers.Conv2D(filters, size, stride, use_bias=bias)(padded(images, padding))


def normalised(images, filters, size, stride=1, *, padding=0, epsilon=1e-5):
    """Return a convolution without bias, and batch normalisation."""
    images = convolution(images, filters, size, stride, padding=padding, bias=False)
    return layers.BatchNormalization(momentum=0.9, epsilon=epsilon)(images)


def relu(images):
    return layers.ReLU()(images)


def padded(images, padding):
    return layers.ZeroPadding2D(padding)(images) if padding else images


def max_pool(images, size, stride, padding=0):
    """Return a pooling; what is added at the ends is 0, so images may hold nothing below that."""
    return layers.MaxPool2D(size, stride)(padded(images, padding))


def average_pool(images, size, stride, padding=0):
    """Return a pooling; what is added at the ends counts in the mean."""
    return layers.AveragePooling2D(size, stride)(padded(images, padding))


def adaptive_average_pool(images, size):
    """Return means over `size` x `size` parts of an image, whatever its own size."""
    height, width = images.shape[1:3]
    if (height, width) == (size, size):
        return images
    rows, columns = (tf.constant(_means(size, length)) for length in (height, width))

    def pool(each):
        return tf.einsum(
            "ih,jw,bhwc->bijc", *(tf.cast(one, each.dtype) for one in (rows, columns)), each
        )

    return layers.Lambda(pool)(images)


def classified(features, classes):
    """Return the last layer, in the precision of the weights, which the loss wants."""
    policy = tf.keras.mixed_precision.global_policy()
    return layers.Dense(classes, dtype=policy.variable_dtype)(features)


def _means(size, length):
    """Return a matrix of shape (size, length) that takes the means of as many parts."""
    means = np.zeros((size, length), np.float32)
    for part in range(size):
        begin, end = part * length // size, -(-(part + 1) * length // size)
        means[part, begin:end] = 1 / (end - begin)
    return means
