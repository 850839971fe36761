"""Train a small CNN on real handwritten digits, with Horovod and TensorFlow, on any number of ranks.

The same data and network as containers/workloads/torch/digits.py: the 1,797 8x8 images that come with
scikit-learn (UCI Optical Recognition of Handwritten Digits). The work is fixed and divided among the
ranks: strong scaling. A loop of its own shows what each part of a step takes.
"""

import argparse
import hashlib
import math

import argosy_steps
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TEST_SHARE = 0.2
SPLIT_SEED = 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="rate of one rank")
    parser.add_argument("--width", type=int, default=96, help="channels of the first layer")
    parser.add_argument("--warm-up-epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def digits():
    """Images as float32 (n, 8, 8, 1) in 0..1 and labels as int64 (n,): training and test set."""
    bunch = load_digits()
    images = (bunch.images / 16.0).astype(np.float32)[..., None]
    labels = bunch.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=labels
    )
    return (images[train], labels[train]), (images[test], labels[test])


def network(width):
    layers = tf.keras.layers
    convolution = {
        "kernel_size": 3,
        "padding": "same",
        "activation": "relu",
        "kernel_initializer": "he_uniform",
    }
    return tf.keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(width, **convolution),
            layers.Conv2D(2 * width, **convolution),
            layers.MaxPool2D(2),
            layers.Conv2D(2 * width, **convolution),
            layers.AveragePooling2D(2),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def learning_rate(options, progress):
    """Rate after `progress` epochs: from one rank's to all ranks' in the warm-up, then a cosine.

    A batch is `size` times as large on `size` ranks, so the rate is as well; the warm-up keeps the
    first steps stable (Goyal et al. 2017, arXiv:1706.02677, section 2.2).
    """
    scaled = options.learning_rate * hvd.size()
    if progress < options.warm_up_epochs:
        share = progress / options.warm_up_epochs
        return options.learning_rate + share * (scaled - options.learning_rate)
    left = (progress - options.warm_up_epochs) / max(1, options.epochs - options.warm_up_epochs)
    return scaled * 0.5 * (1 + math.cos(math.pi * min(1.0, left)))


def batches(data, options, epoch):
    """Yield this rank's batches of an epoch; every rank has as many."""
    images, labels = data
    order = np.random.default_rng([options.seed, epoch]).permutation(len(labels))
    own = order[hvd.rank() :: hvd.size()]
    number = len(labels) // hvd.size() // options.batch_size
    for batch in own[: number * options.batch_size].reshape(number, options.batch_size):
        yield tf.constant(images[batch]), tf.constant(labels[batch])


class Training:
    """The parts of a step, compiled, each of which is timed."""

    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def gradients(self, images, labels):
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(images, training=True))
        return loss, tape.gradient(loss, self.model.trainable_variables)

    @tf.function
    def averaged(self, gradients):
        return hvd.grouped_allreduce(gradients, op=hvd.Average)

    @tf.function(autograph=False)
    def update(self, gradients):
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs)

    def step(self, images, labels, step):
        # Forward and backward pass are one compiled function here.
        with step.phase("backward"):
            loss, gradients = self.gradients(images, labels)
        with step.phase("communication"):
            gradients = self.averaged(gradients)
        with step.phase("update"):
            self.update(gradients)
        return float(loss)


def train(options, training, data, steps):
    number = len(data[1]) // hvd.size() // options.batch_size
    for epoch in range(options.epochs):
        for place, (images, labels) in enumerate(steps.loading(batches(data, options, epoch))):
            training.optimizer.learning_rate = learning_rate(options, epoch + place / number)
            with steps.step(samples=len(labels), epoch=epoch) as step:
                loss = training.step(images, labels, step)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{options.epochs}: loss {loss:.4f}", flush=True)


def accuracy(model, data):
    """Share of the test set that is classified right; every rank computes it from its weights."""
    images, labels = data
    return float(np.mean(np.argmax(model(images), axis=1) == labels))


def weights_digest(model):
    """Return a digest of all weights, bit by bit."""
    digest = hashlib.sha256()
    for values in model.get_weights():
        digest.update(values.tobytes())
    return digest.hexdigest()


def main():
    options = parse_arguments()
    hvd.init()
    steps = argosy_steps.Recorder()
    # Different on purpose: the broadcast below has to make them equal, and the check has to see it.
    tf.random.set_seed(options.seed + hvd.rank())
    training_data, test_data = digits()
    model = network(options.width)
    optimizer = tf.keras.optimizers.SGD(options.learning_rate, momentum=0.9)
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables(model.variables, root_rank=0)
    train(options, Training(model, optimizer), training_data, steps)

    digests = hvd.allgather_object(weights_digest(model))
    identical = len(set(digests)) == 1
    reached = accuracy(model, test_data)
    steps.metric("test_accuracy", reached)
    steps.metric("weights_identical", identical)
    steps.metric("weights_sha256", digests[hvd.rank()])
    if hvd.rank() == 0:
        print(
            f"test accuracy {reached:.4f}, weights identical on all ranks: {identical}", flush=True
        )
    if not identical:
        raise SystemExit(f"the ranks' weights differ: {digests}")


if __name__ == "__main__":
    main()
