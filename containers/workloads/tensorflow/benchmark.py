"""Measure the training of a published model on synthetic images, with Horovod and TensorFlow.

As containers/workloads/torch/benchmark.py: each rank has a batch of its own, made once, so that nothing is
loaded. All steps are recorded with their phases; the line that such benchmarks print,
`Total img/sec on N …`, is of those after the warm-up.
"""

import argparse
import math
import resource
import statistics
import time

import argosy_steps
import horovod.tensorflow as hvd
import tensorflow as tf
from models import IMAGE_SIZES, MODELS

POLICIES = {"fp32": "float32", "fp16": "mixed_float16", "bf16": "mixed_bfloat16"}
GROUPS = 10
"""Of steps, whose rates give the spread that is printed."""
SKIPPED, WATCHED = 5, 5
"""Steps before the times of gradients are watched, and while they are."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--batch-size", type=positive, default=32, help="of each rank")
    parser.add_argument(
        "--image-size", type=positive, help="pixels of a side; left out: as in the model's paper"
    )
    parser.add_argument("--classes", type=positive, default=1000)
    parser.add_argument("--steps", type=positive, default=100, help="after the warm-up")
    parser.add_argument("--warm-up", type=int, default=10, help="steps that are not in the rate")
    parser.add_argument("--precision", choices=POLICIES, default="fp32")
    parser.add_argument("--learning-rate", type=float, default=0.001, help="of one rank")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: a number above 0 is needed")
    return number


def find_device():
    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        return "CPU"
    tf.config.set_visible_devices(devices[hvd.local_rank() % len(devices)], "GPU")
    return "GPU"


def floating_point_operations(model, loss):
    """Of one sample's forward and backward pass: multiplications and additions, counted, not computed."""

    @tf.function
    def pass_of(image, label):
        with tf.GradientTape() as tape:
            found = loss(label, model(image, training=True))
        return tape.gradient(found, model.trainable_variables)

    image = tf.TensorSpec((1, *model.input_shape[1:]))
    graph = pass_of.get_concrete_function(image, tf.TensorSpec((1,), tf.int64)).graph
    return sum(operations_of(each) for each in graph.get_operations())


def operations_of(operation):
    """Of a convolution or a product of matrices and its gradients; of all else next to nothing."""
    kind, shapes = operation.type, [each.shape for each in operation.inputs]
    if kind == "Conv2D":
        return 2 * operation.outputs[0].shape.num_elements() * shapes[1][:3].num_elements()
    if kind == "Conv2DBackpropInput":
        return 2 * shapes[2].num_elements() * shapes[1][:3].num_elements()
    if kind == "Conv2DBackpropFilter":
        return 2 * shapes[2].num_elements() * operation.outputs[0].shape[:3].num_elements()
    if kind in ("MatMul", "BatchMatMulV2"):
        first = operation.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
        summed = shapes[0][-2 if first else -1]
        return 2 * operation.outputs[0].shape.num_elements() * summed
    if kind == "Einsum":
        letters = operation.get_attr("equation").decode().partition("->")[0].split(",")
        pairs = zip(letters, shapes, strict=True)
        lengths = {
            letter: size
            for names, shape in pairs
            for letter, size in zip(names, shape, strict=True)
        }
        return 2 * math.prod(lengths.values())
    return 0


class Training:
    """A model with one batch, which is the same in every step."""

    def __init__(self, options, image_size):
        self.model = MODELS[options.model](image_size, options.classes)
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        shape = (options.batch_size, image_size, image_size, 3)
        self.images = tf.Variable(tf.random.normal(shape), trainable=False)
        labels = tf.random.uniform(shape[:1], maxval=options.classes, dtype=tf.int64)
        self.labels = tf.Variable(labels, trainable=False)
        self.optimizer = tf.keras.optimizers.SGD(options.learning_rate * hvd.size(), momentum=0.9)
        if options.precision == "fp16":
            # Gradients of half precision are too small for it, unless they are enlarged.
            self.optimizer = tf.keras.mixed_precision.LossScaleOptimizer(self.optimizer)
        self.optimizer.build(self.model.trainable_variables)
        hvd.broadcast_variables(self.model.variables, root_rank=0)
        hvd.broadcast_variables(self.optimizer.variables, root_rank=0)

    def step(self, step):
        """Make one step; the loss."""
        with step.phase("backward"):
            began = time.time()
            loss, gradients, at = self.averaged_gradients()
            loss = float(loss)
            forward, backward, exchanged = (float(each) for each in at)
        # All three are one compiled function, in which an exchange begins as soon as a gradient is ready.
        moved = {"forward": forward - began, "communication": exchanged - backward}
        step.phases["backward"] -= sum(moved.values())
        step.phases.update(moved)
        with step.phase("update"):
            self.update(gradients)
        return loss

    @tf.function
    def averaged_gradients(self):
        """Return the loss, all ranks' mean gradients, and when loss, own gradients and means were there."""
        loss, own = self.gradients()
        means = [hvd.allreduce(each, op=hvd.Average) for each in own]
        return loss, means, (time_of([loss]), time_of(own), time_of(means))

    @tf.function
    def gradient_times(self):
        """Return seconds from the loss until each gradient is ready."""
        loss, own = self.gradients()
        since = time_of([loss])
        return [time_of([each]) - since for each in own]

    def gradients(self):
        """Return the loss and this rank's gradients."""
        scale = getattr(self.optimizer, "get_scaled_loss", lambda loss: loss)
        unscale = getattr(self.optimizer, "get_unscaled_gradients", lambda gradients: gradients)
        with tf.GradientTape() as tape:
            loss = self.loss(self.labels, self.model(self.images, training=True))
            scaled = scale(loss)
        return loss, unscale(tape.gradient(scaled, self.model.trainable_variables))

    @tf.function(autograph=False)
    def update(self, gradients):
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs)


def time_of(tensors):
    """Return when all of them have been computed, in seconds, within a compiled function."""
    firsts = [tf.reshape(each, [-1])[:1] for each in tensors]
    # A number that is copied to the processor is one that the GPU has computed.
    with tf.device("CPU"), tf.control_dependencies([tf.identity(each) for each in firsts]):
        return tf.timestamp()


def record_layers(training, steps):
    """Record when each gradient of the backward pass is ready: the median of some passes."""
    if not steps.records:
        return
    passes = [[float(each) for each in training.gradient_times()] for _ in range(SKIPPED + WATCHED)]
    ready = [statistics.median(times) for times in zip(*passes[SKIPPED:], strict=True)]
    found = sorted(
        zip(ready, training.model.trainable_variables, strict=True), key=lambda each: each[0]
    )
    steps.layers((one.name, one.shape.num_elements() * one.dtype.size, at) for at, one in found)


def train(training, options, steps):
    """Make all steps; seconds of each one after the warm-up."""
    seconds = []
    for number in range(options.warm_up + options.steps):
        began = time.perf_counter()
        with steps.step(samples=options.batch_size) as step:
            loss = training.step(step)
        if number >= options.warm_up:
            seconds.append(time.perf_counter() - began)
        if not math.isfinite(loss):
            raise SystemExit(f"step {number}: the loss is {loss}; lower --learning-rate")
    return seconds


def say_rate(options, seconds, device):
    """Print images per second of all ranks, and how far the rates of groups of steps scatter."""
    length = max(1, len(seconds) // GROUPS)
    groups = [seconds[place : place + length] for place in range(0, len(seconds), length)]
    rates = [hvd.size() * options.batch_size * len(group) / sum(group) for group in groups]
    mean = hvd.size() * options.batch_size * len(seconds) / sum(seconds)
    spread = 1.96 * statistics.pstdev(rates)
    print(f"Total img/sec on {hvd.size()} {device}(s): {mean:.1f} +-{spread:.1f}", flush=True)


def peak_memory(device):
    """Bytes that this rank has used at most: of the GPU, or without one of the node."""
    if device == "GPU":
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    options = parse_arguments()
    hvd.init()
    steps = argosy_steps.Recorder()
    tf.random.set_seed(options.seed + hvd.rank())
    device = find_device()
    tf.keras.mixed_precision.set_global_policy(POLICIES[options.precision])
    image_size = options.image_size or IMAGE_SIZES.get(options.model, 224)
    try:
        training = Training(options, image_size)
        seconds = train(training, options, steps)
    except tf.errors.ResourceExhaustedError as problem:
        raise SystemExit(
            f"--batch-size {options.batch_size} does not fit into memory: {problem.message}"
        ) from None
    record_layers(training, steps)
    steps.metric("flops_per_sample", floating_point_operations(training.model, training.loss))
    steps.metric("peak_memory_bytes", peak_memory(device))
    if hvd.rank() == 0:
        say_rate(options, seconds, device)


if __name__ == "__main__":
    main()
