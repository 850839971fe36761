"""Measure the training of a published model, with Horovod and TensorFlow.

As containers/workloads/torch/benchmark.py: each rank has a batch of its own, made once, so that nothing is
loaded, or reads files with `--images`. All steps are recorded with their phases; the line that such
benchmarks print, `Total img/sec on N …`, is of those after the warm-up.
"""

import itertools
import math
import resource
import statistics
import sys
import time
from pathlib import Path

import argosy_steps
import horovod.tensorflow as hvd
import tensorflow as tf
from models import IMAGE_SIZES, MODELS

sys.path.append(str(Path(__file__).resolve().parents[1]))
from image_benchmark.measuring import rate_line, train
from image_benchmark.options import parser

POLICIES = {"fp32": "float32", "fp16": "mixed_float16", "bf16": "mixed_bfloat16"}
SKIPPED, WATCHED = 5, 5
"""Steps before the times of gradients are watched, and while they are."""


def parse_arguments():
    return parser(__doc__, MODELS, POLICIES).parse_args()


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
    """A model on this rank."""

    def __init__(self, options, image_size):
        self.rank = hvd.rank()
        self.model = MODELS[options.model](image_size, options.classes)
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.optimizer = tf.keras.optimizers.SGD(options.learning_rate * hvd.size(), momentum=0.9)
        if options.precision == "fp16":
            # Gradients of half precision are too small for it, unless they are enlarged.
            self.optimizer = tf.keras.mixed_precision.LossScaleOptimizer(self.optimizer)
        self.optimizer.build(self.model.trainable_variables)
        hvd.broadcast_variables(self.model.variables, root_rank=0)
        hvd.broadcast_variables(self.optimizer.variables, root_rank=0)

    def step(self, step, batch):
        """Make one step; the loss."""
        with step.phase("backward"):
            began = time.time()
            loss, gradients, at = self.averaged_gradients(*batch)
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
    def averaged_gradients(self, images, labels):
        """Return the loss, all ranks' mean gradients, and when loss, own gradients and means were there."""
        loss, own = self.gradients(images, labels)
        means = [hvd.allreduce(each, op=hvd.Average) for each in own]
        return loss, means, (time_of([loss]), time_of(own), time_of(means))

    @tf.function
    def gradient_times(self, images, labels):
        """Return seconds from the loss until each gradient is ready."""
        loss, own = self.gradients(images, labels)
        since = time_of([loss])
        return [time_of([each]) - since for each in own]

    def gradients(self, images, labels):
        """Return the loss and this rank's gradients."""
        scale = getattr(self.optimizer, "get_scaled_loss", lambda loss: loss)
        unscale = getattr(self.optimizer, "get_unscaled_gradients", lambda gradients: gradients)
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(images, training=True))
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


def record_layers(training, batch, steps):
    """Record when each gradient of the backward pass is ready: the median of some passes."""
    if not steps.records:
        return
    passes = [
        [float(each) for each in training.gradient_times(*batch)] for _ in range(SKIPPED + WATCHED)
    ]
    ready = [statistics.median(times) for times in zip(*passes[SKIPPED:], strict=True)]
    found = sorted(
        zip(ready, training.model.trainable_variables, strict=True), key=lambda each: each[0]
    )
    steps.layers((one.name, one.shape.num_elements() * one.dtype.size, at) for at, one in found)


def batches_of(options, image_size, steps):
    """Return batches without end: of noise, which is made once, or of files."""
    if options.images is None:
        shape = (options.batch_size, image_size, image_size, 3)
        labels = tf.random.uniform(shape[:1], maxval=options.classes, dtype=tf.int64)
        return itertools.repeat((tf.random.normal(shape), labels))
    import image_batches

    return steps.loading(image_batches.batches(options, image_size))


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
        batches = batches_of(options, image_size, steps)
        seconds = train(training, batches, options, steps)
    except tf.errors.ResourceExhaustedError as problem:
        raise SystemExit(
            f"--batch-size {options.batch_size} does not fit into memory: "
            f"{problem.message.splitlines()[0]}"
        ) from None
    if hvd.rank() == 0:
        line = rate_line(hvd.size() * options.batch_size, seconds, f"{hvd.size()} {device}")
        print(line, flush=True)
    record_layers(training, next(iter(batches)), steps)
    steps.metric("flops_per_sample", floating_point_operations(training.model, training.loss))
    steps.metric("peak_memory_bytes", peak_memory(device))


if __name__ == "__main__":
    main()
