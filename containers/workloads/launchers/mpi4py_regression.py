"""mpi4py, with `launcher: mpi`: an allreduce of the gradients in each step."""

import numpy as np
from mpi4py import MPI

BATCH, STEPS = 512, 500

world = MPI.COMM_WORLD
inputs = np.random.default_rng(world.rank).normal(size=(BATCH, 16))
target = inputs.sum(axis=1)
weights = np.zeros(16)
gradient = np.empty_like(weights)
began = MPI.Wtime()
for _ in range(STEPS):
    world.Allreduce(2 / BATCH * (inputs.T @ (inputs @ weights - target)), gradient)
    weights -= 0.1 / world.size * gradient
rate = BATCH * world.size * STEPS / (MPI.Wtime() - began)
assert np.allclose(weights, 1), weights
if world.rank == 0:
    print(f"ranks: {world.size}")
    print(f"{rate:.1f} samples/s", flush=True)
