"""TensorFlow's MultiWorkerMirroredStrategy, with `launcher: tensorflow`: a loop of one's own."""

import time

import tensorflow as tf

BATCH, STEPS = 64, 100

strategy = tf.distribute.MultiWorkerMirroredStrategy()
ranks = strategy.num_replicas_in_sync
with strategy.scope():
    weights = tf.Variable(tf.zeros([16, 1]))


def batches(context):
    """Return the part of one rank: random inputs, and their sum to be learned."""
    seed = [context.input_pipeline_id, 1]
    inputs = tf.random.stateless_normal([BATCH, 16], seed)
    each = tf.data.Dataset.from_tensors((inputs, tf.reduce_sum(inputs, 1, keepdims=True)))
    return each.repeat()


def descend(inputs, target):
    """Descend along the gradient of the whole batch."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((inputs @ weights - target) ** 2)
    [gradient] = tape.gradient(loss, [weights])
    mean = tf.distribute.get_replica_context().all_reduce("MEAN", gradient)
    weights.assign_sub(0.1 * mean)


@tf.function
def step(iterator):
    """Let all ranks do a step."""
    strategy.run(descend, next(iterator))


iterator = iter(strategy.distribute_datasets_from_function(batches))
step(iterator)
began = time.perf_counter()
for _ in range(STEPS):
    step(iterator)
rate = BATCH * ranks * STEPS / (time.perf_counter() - began)
[values] = strategy.experimental_local_results(weights)
assert abs(values.numpy() - 1).max() < 0.1, values
if strategy.cluster_resolver.task_id in (0, None):
    print(f"ranks: {ranks}")
    print(f"{rate:.1f} samples/s", flush=True)
