"""ResNet-50 and -101: He et al., CVPR 2016, arXiv:1512.03385. 25.6 and 44.5 million parameters.

The stride of a stage is in its first 3x3 convolution, as in most benchmarks; the paper has it in the 1x1
before, with as many parameters.
"""

import tensorflow as tf

from .layers import classified, layers, max_pool, normalised, relu

EXPANSION = 4


def resnet50(image_size, classes=1000):
    return _resnet((3, 4, 6, 3), image_size, classes)


def resnet101(image_size, classes=1000):
    return _resnet((3, 4, 23, 3), image_size, classes)


def _resnet(blocks, image_size, classes):
    inputs = layers.Input((image_size, image_size, 3))
    found = max_pool(relu(normalised(inputs, 64, 7, stride=2, padding=3)), 3, 2, padding=1)
    for stage, count in enumerate(blocks):
        for block in range(count):
            found = _bottleneck(found, 64 << stage, 2 if stage and not block else 1)
    found = layers.GlobalAveragePooling2D()(found)
    return tf.keras.Model(inputs, classified(found, classes))


def _bottleneck(images, width, stride):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut."""
    out = EXPANSION * width
    residual = relu(normalised(images, width, 1))
    residual = relu(normalised(residual, width, 3, stride, padding=1))
    residual = normalised(residual, out, 1)
    same = stride == 1 and images.shape[-1] == out
    shortcut = images if same else normalised(images, out, 1, stride)
    return relu(layers.Add()([residual, shortcut]))
