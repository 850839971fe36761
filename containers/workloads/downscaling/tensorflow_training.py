"""Downscale precipitation by a convolutional network, with Horovod and Keras, on any number of ranks.

The same network, loss and data as torch_training.py, which says more of them.
"""

import argosy_steps
import horovod.tensorflow as hvd
import tensorflow as tf
from fields import WET
from training import CHANNELS, LEAST, Progress, check_loss, parse_arguments, read

layers = tf.keras.layers


def network(fields, points):
    """Return a model of three numbers for each point: logit of rain, logarithms of shape and scale."""
    channels, *grid = fields
    inputs = layers.Input((channels, *grid))
    # TensorFlow wants channels last; features are flattened in the order of the other framework.
    found = layers.Permute((2, 3, 1))(inputs)
    for filters in CHANNELS:
        found = layers.Conv2D(filters, 3, padding="same", activation="relu")(found)
    found = layers.Flatten()(layers.Permute((3, 1, 2))(found))
    return tf.keras.Model(inputs, layers.Dense(3 * points)(found))


def bernoulli_gamma_loss(predicted, rain):
    """Return the mean negative logarithm of the likelihood (Williams, Neural Netw. 11, 1998)."""
    logit, log_shape, log_scale = tf.split(predicted, 3, axis=1)
    wet = tf.cast(rain >= WET, rain.dtype)
    amount = tf.maximum(rain - WET + LEAST, LEAST)
    shape = tf.exp(log_shape)
    density = (shape - 1) * tf.math.log(amount) - amount * tf.exp(-log_scale)
    density = density - shape * log_scale - tf.math.lgamma(shape)
    occurrence = tf.nn.sigmoid_cross_entropy_with_logits(wet, logit)
    return tf.reduce_mean(occurrence - wet * density)


class Training:
    """The parts of a step, compiled, each of which is timed."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    @tf.function
    def gradients(self, fields, rain):
        with tf.GradientTape() as tape:
            loss = bernoulli_gamma_loss(self.model(fields, training=True), rain)
        return loss, tape.gradient(loss, self.model.trainable_variables)

    @tf.function
    def averaged(self, gradients):
        return hvd.grouped_allreduce(gradients, op=hvd.Average)

    @tf.function(autograph=False)
    def update(self, gradients):
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs)

    def step(self, batch, step):
        # Forward and backward pass are one compiled function here.
        with step.phase("backward"):
            loss, gradients = self.gradients(*map(tf.constant, batch))
        with step.phase("communication"):
            gradients = self.averaged(gradients)
        with step.phase("update"):
            self.update(gradients)
        return float(loss)


def reduced(op):
    return lambda array: hvd.allreduce(tf.constant(array), op=op).numpy()


def main():
    options = parse_arguments(__doc__)
    hvd.init()
    steps = argosy_steps.Recorder()
    data = read(options, hvd.rank(), hvd.size(), reduced(hvd.Sum), reduced(hvd.Min))
    tf.random.set_seed(data.seed)
    model = network(data.fields, data.points)
    optimizer = tf.keras.optimizers.Adam(options.learning_rate)
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables(model.variables, root_rank=0)
    training, progress = Training(model, optimizer), Progress(options, data, steps)
    held_out = tf.constant(data.normal.of(data.held_out.predictors))
    for epoch in range(options.epochs):
        for batch in steps.loading(data.batches(epoch)):
            with steps.step(samples=len(batch[1]), epoch=epoch) as step:
                loss = training.step(batch, step)
            check_loss(loss, epoch)
        if hvd.rank() == 0:
            predicted = tf.split(model(held_out, training=False), 3, axis=1)
            progress.show(epoch, loss, [each.numpy() for each in predicted])
    if hvd.rank() == 0:
        progress.record()


if __name__ == "__main__":
    main()
