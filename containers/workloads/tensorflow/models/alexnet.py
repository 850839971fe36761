"""AlexNet in one tower: Krizhevsky, "One weird trick for parallelizing convolutional neural networks".

arXiv:1404.5997, 2014, as it is usually built: without response normalisation. 61.1 million parameters.
"""

import tensorflow as tf

from .layers import adaptive_average_pool, classified, convolution, layers, max_pool, relu


def alexnet(image_size, classes=1000):
    inputs = layers.Input((image_size, image_size, 3))
    found = max_pool(relu(convolution(inputs, 64, 11, stride=4, padding=2)), 3, 2)
    found = max_pool(relu(convolution(found, 192, 5, padding=2)), 3, 2)
    for filters in (384, 256, 256):
        found = relu(convolution(found, filters, 3, padding=1))
    found = layers.Flatten()(adaptive_average_pool(max_pool(found, 3, 2), 6))
    for _ in range(2):
        found = layers.Dense(4096, activation="relu")(layers.Dropout(0.5)(found))
    return tf.keras.Model(inputs, classified(found, classes))
