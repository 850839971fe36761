"""JAX, with `launcher: jax`: one program over the devices of all ranks, and data divided between them."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BATCH, STEPS = 512, 200

jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("rank",))
divided = NamedSharding(mesh, PartitionSpec("rank"))
everywhere = NamedSharding(mesh, PartitionSpec())


@jax.jit
def step(weights, inputs):
    """Descend along the gradient of the whole batch: JAX adds up what the ranks have of it."""

    def loss(weights):
        return jnp.mean((inputs @ weights - inputs.sum(axis=1)) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


own = np.random.default_rng(jax.process_index()).normal(size=(BATCH, 16)).astype("float32")
inputs = jax.make_array_from_process_local_data(divided, own)
weights = jax.device_put(np.zeros(16, "float32"), everywhere)
weights = step(weights, inputs).block_until_ready()
began = time.perf_counter()
for _ in range(STEPS):
    weights = step(weights, inputs)
weights.block_until_ready()
rate = len(inputs) * STEPS / (time.perf_counter() - began)
assert np.allclose(weights, 1, atol=0.01), weights
if jax.process_index() == 0:
    print(f"ranks: {jax.process_count()}")
    print(f"{rate:.1f} samples/s", flush=True)
