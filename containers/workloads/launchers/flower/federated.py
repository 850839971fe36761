"""Flower, with `launcher: flower`: each node trains on its own data, the server averages the weights."""

import time

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

BATCH, STEPS = 512, 20

server = ServerApp()
client = ClientApp()


@client.train()
def train(message, context):
    """Train on this node's data, which no other node sees."""
    [weights] = message.content["arrays"].to_numpy_ndarrays()
    seed = context.node_config["partition-id"]
    inputs = np.random.default_rng(seed).normal(size=(BATCH, 16))
    for _ in range(STEPS):
        weights = weights - 0.2 / BATCH * (inputs.T @ (inputs @ weights - inputs.sum(axis=1)))
    metrics = MetricRecord({"num-examples": BATCH, "node": seed})
    content = RecordDict({"arrays": ArrayRecord([weights]), "metrics": metrics})
    return Message(content=content, reply_to=message)


@server.main()
def main(grid, context):
    """Average the weights of all nodes in each round."""
    rounds, nodes = context.run_config["rounds"], context.run_config["nodes"]
    strategy = FedAvg(
        fraction_evaluate=0, min_train_nodes=nodes, min_evaluate_nodes=0, min_available_nodes=nodes
    )
    began = time.perf_counter()
    found = strategy.start(grid, ArrayRecord([np.zeros(16)]), num_rounds=rounds)
    rate = BATCH * STEPS * nodes * rounds / (time.perf_counter() - began)
    [weights] = found.arrays.to_numpy_ndarrays()
    assert np.allclose(weights, 1, atol=0.01), weights
    print(f"nodes: {nodes}")
    print(f"{rate:.1f} samples/s", flush=True)
