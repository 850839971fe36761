"""The small vision transformer, ViT-S/16: Touvron et al., ICML 2021, arXiv:2012.12877.

It is that of Dosovitskiy et al., ICLR 2021, arXiv:2010.11929, with 6 heads of 64 channels. 22.1 million
parameters.
"""

import tensorflow as tf

from .layers import classified, layers

PATCH = 16
CHANNELS = 384
HEADS = 6
BLOCKS = 12
EPSILON = 1e-5


class Words(layers.Layer):
    """The patches with one more word in front of them, and where each of them is."""

    def build(self, shape):
        normal = tf.keras.initializers.RandomNormal(stddev=0.02)
        self.word = self.add_weight("word", (1, 1, CHANNELS), initializer="zeros")
        self.positions = self.add_weight(
            "positions", (1, shape[1] + 1, CHANNELS), initializer=normal
        )

    def call(self, patches):
        first = tf.cast(tf.repeat(self.word, tf.shape(patches)[0], axis=0), patches.dtype)
        return tf.concat([first, patches], 1) + tf.cast(self.positions, patches.dtype)


def vit_small(image_size, classes=1000):
    inputs = layers.Input((image_size, image_size, 3))
    patches = layers.Conv2D(CHANNELS, PATCH, PATCH)(inputs)
    words = Words()(layers.Reshape((-1, CHANNELS))(patches))
    for _ in range(BLOCKS):
        words = _block(words)
    # Only the first word is classified.
    first = layers.Lambda(lambda each: each[:, 0])(words)
    return tf.keras.Model(inputs, classified(_normalised(first), classes))


def _block(words):
    found = _normalised(words)
    attention = layers.MultiHeadAttention(HEADS, CHANNELS // HEADS)
    words = layers.Add()([words, attention(found, found)])
    found = layers.Dense(4 * CHANNELS, activation="gelu")(_normalised(words))
    return layers.Add()([words, layers.Dense(CHANNELS)(found)])


def _normalised(words):
    return layers.LayerNormalization(epsilon=EPSILON)(words)
