"""Batches of images from files, read and decoded by threads beside the training."""

import collections

import horovod.tensorflow as hvd
import tensorflow as tf
from image_benchmark.image_files import find_images, shares


def batches(options, image_size):
    """Yield without end batches of this rank's images and their classes."""
    files = find_images(options.images, options.classes, options.batch_size * hvd.size())
    recent = collections.deque(maxlen=8 * options.batch_size)

    def own():
        share = shares(len(files), options.batch_size, hvd.rank(), hvd.size(), options.seed)
        for numbers in share:
            for number in numbers:
                recent.append(files[number].path)
                yield files[number].path, files[number].label

    def load(path, label):
        return pixels_of(path, image_size), label

    kinds = (tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.int64))
    loaded = tf.data.Dataset.from_generator(own, output_signature=kinds)
    loaded = loaded.map(load, num_parallel_calls=options.loaders)
    loaded = loaded.batch(options.batch_size, drop_remainder=True).prefetch(2)
    iterator = iter(loaded)
    while True:
        try:
            yield next(iterator)
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as problem:
            raise SystemExit(f"--images {options.images}: {first_wrong(recent, problem)}") from None


def pixels_of(path, size):
    """Return of an image a random square of its shorter side, perhaps mirrored; pixels from -1 to 1."""
    image = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
    side = tf.minimum(tf.shape(image)[0], tf.shape(image)[1])
    square = tf.image.random_crop(image, (side, side, 3))
    return tf.image.random_flip_left_right(tf.image.resize(square, (size, size)) / 127.5 - 1)


def first_wrong(paths, problem):
    """Return which of these images cannot be read: what TensorFlow says names none."""
    for path in paths:
        try:
            tf.io.decode_image(tf.io.read_file(path))
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as found:
            return f"{path} cannot be read as an image: {found.message.splitlines()[0]}"
    return problem.message.splitlines()[0]
