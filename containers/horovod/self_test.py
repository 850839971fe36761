"""Proves that Horovod works in this image, by two ranks: `python3 self_test.py {torch,tensorflow}`.

The sum of what two ranks hold is exact, and two ranks that begin with different weights and see different
data end with the same weights, and with better ones. It runs when the image is built, and wherever
somebody wants to know. Everything stays on this machine, at 127.0.0.1.
"""

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

RANKS = 2
STEPS = 40
LEARNING_RATE = 0.1
TIMEOUT_S = 300


class Rendezvous(BaseHTTPRequestHandler):
    """What Gloo asks of a rendezvous: GET, PUT and DELETE of values by their path."""

    values: ClassVar[dict] = {}

    def do_GET(self):
        value = self.values.get(self.path)
        self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self):
        self.values[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200)

    def do_DELETE(self):
        self._answer(200)

    def _answer(self, status, content=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Nobody wants to read of every request."""


def environment(rank, port):
    """Of one rank."""
    return {
        **os.environ,
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(RANKS),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(RANKS),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_HOSTNAME": "self-test",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(TIMEOUT_S),
        # On a machine with GPUs, too: what is proved here is the image.
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def start_ranks(framework):
    """Start the ranks; 0 when all of them found everything right."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Rendezvous)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [sys.executable, __file__, framework]
    ranks = [
        subprocess.Popen(command, env=environment(rank, server.server_port))
        for rank in range(RANKS)
    ]
    try:
        return max(abs(rank.wait(TIMEOUT_S)) for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()


def check(right, what):
    """End this rank unless it is right."""
    if not right:
        sys.exit(f"self-test, rank {os.environ['HOROVOD_RANK']}: {what}")


def test_torch():
    import horovod.torch as hvd
    import torch

    hvd.init()
    check(hvd.size() == RANKS, f"{hvd.size()} ranks, not {RANKS}")
    for kind in (torch.float16, torch.float32, torch.float64, torch.int32, torch.int64):
        own = torch.arange(1000).to(kind) * (hvd.rank() + 1)
        total = hvd.allreduce(own, op=hvd.Sum, name=f"sum of {kind}")
        check(torch.equal(total, torch.arange(1000).to(kind) * 3), f"the sum of {kind} is wrong")

    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    inputs = torch.randn(64, 8)
    targets = inputs.sum(dim=1, keepdim=True)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = torch.cat([values.detach().flatten() for values in model.parameters()])
    gathered = hvd.allgather(weights.unsqueeze(0))
    check(torch.equal(gathered[0], gathered[1]), "the ranks' weights differ after training")
    check(losses[-1] < losses[0] / 2, f"it does not learn: loss {losses[0]} to {losses[-1]}")
    return f"torch {torch.__version__}, loss {losses[0]:.3f} to {losses[-1]:.3f}"


def test_tensorflow():
    import horovod.tensorflow.keras as hvd
    import numpy
    import tensorflow as tf

    hvd.init()
    check(hvd.size() == RANKS, f"{hvd.size()} ranks, not {RANKS}")
    for kind in (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64):
        own = tf.cast(tf.range(1000), kind) * tf.cast(hvd.rank() + 1, kind)
        total = hvd.allreduce(own, op=hvd.Sum, name=f"sum_{kind.name}").numpy()
        right = numpy.arange(1000).astype(kind.as_numpy_dtype) * 3
        check(numpy.array_equal(total, right), f"the sum of {kind.name} is wrong")

    tf.random.set_seed(hvd.rank())
    model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(LEARNING_RATE))
    model.compile(optimizer=optimizer, loss="mse")
    inputs = tf.random.normal((64, 8))
    fitted = model.fit(
        inputs,
        tf.reduce_sum(inputs, axis=1, keepdims=True),
        batch_size=64,
        epochs=STEPS,
        verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
    )
    losses = fitted.history["loss"]
    weights = numpy.concatenate([values.ravel() for values in model.get_weights()])
    gathered = hvd.allgather(weights[None]).numpy()
    check(numpy.array_equal(gathered[0], gathered[1]), "the ranks' weights differ after training")
    check(losses[-1] < losses[0] / 2, f"it does not learn: loss {losses[0]} to {losses[-1]}")
    check(refuses_keras_3(hvd), "an optimizer of Keras 3, which is never averaged, is not refused")
    return f"tensorflow {tf.__version__}, loss {losses[0]:.3f} to {losses[-1]:.3f}"


def refuses_keras_3(hvd):
    """Whether the optimizer of the other Keras is refused."""
    import keras

    try:
        hvd.DistributedOptimizer(keras.optimizers.SGD(LEARNING_RATE))
    except RuntimeError:
        return True
    return False


def main():
    framework = sys.argv[1]
    if "HOROVOD_RANK" not in os.environ:
        sys.exit(start_ranks(framework))
    said = {"torch": test_torch, "tensorflow": test_tensorflow}[framework]()
    if os.environ["HOROVOD_RANK"] == "0":
        print(f"self-test: {RANKS} ranks, exact sums, identical weights ({said})", flush=True)


if __name__ == "__main__":
    main()
