"""Ray, with `launcher: ray`: actors on all nodes, and a driver on the head."""

import time

import numpy as np
import ray

BATCH, STEPS = 512, 100


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
class Worker:
    """Holds a part of the data."""

    def __init__(self, seed):
        self.inputs = np.random.default_rng(seed).normal(size=(BATCH, 16))
        self.target = self.inputs.sum(axis=1)

    def gradient(self, weights):
        """Return the gradient of this part."""
        return 2 / BATCH * (self.inputs.T @ (self.inputs @ weights - self.target))

    def node(self):
        """Return where it runs."""
        return ray.get_runtime_context().get_node_id()


ray.init()
workers = [Worker.remote(seed) for seed in range(len(ray.nodes()))]
nodes = set(ray.get([worker.node.remote() for worker in workers]))
assert len(nodes) == len(workers), f"{len(workers)} workers on {len(nodes)} nodes"
weights = np.zeros(16)
began = time.perf_counter()
for _ in range(STEPS):
    weights -= 0.1 * np.mean(ray.get([one.gradient.remote(weights) for one in workers]), axis=0)
rate = BATCH * len(workers) * STEPS / (time.perf_counter() - began)
assert np.allclose(weights, 1, atol=0.01), weights
print(f"nodes: {len(nodes)}")
print(f"{rate:.1f} samples/s", flush=True)
