"""VGG-16: Simonyan and Zisserman, ICLR 2015, arXiv:1409.1556, configuration D. 138.4 million parameters."""

import tensorflow as tf

from .layers import adaptive_average_pool, classified, convolution, layers, max_pool, relu

CONFIGURATION_D = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(image_size, classes=1000):
    inputs = found = layers.Input((image_size, image_size, 3))
    for block in CONFIGURATION_D:
        for filters in block:
            found = relu(convolution(found, filters, 3, padding=1))
        found = max_pool(found, 2, 2)
    found = layers.Flatten()(adaptive_average_pool(found, 7))
    for _ in range(2):
        found = layers.Dropout(0.5)(layers.Dense(4096, activation="relu")(found))
    return tf.keras.Model(inputs, classified(found, classes))
