"""Loss and gradients of the downscaling network: `downscaling_gradients.py FRAMEWORK FILE.npz`.

PyTorch writes weights, batch and results; TensorFlow prints its differences as JSON.
"""

import json
import sys

import numpy as np

sys.path.insert(0, "/workloads/downscaling")
FIELDS, POINTS = (10, 8, 12), 384


def as_keras(values):
    """Transpose the axes to TensorFlow's order."""
    return values.transpose({4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}[values.ndim])


def by_torch(path):
    import torch
    from torch_training import Network, bernoulli_gamma_loss

    torch.manual_seed(5)
    model = Network(FIELDS, POINTS)
    fields, rain = torch.randn(16, *FIELDS), 6 * torch.rand(16, POINTS) - 3
    rain = torch.clamp(rain, min=0)
    loss = bernoulli_gamma_loss(model(fields), rain)
    loss.backward()
    found = {"fields": fields.numpy(), "rain": rain.numpy(), "loss": loss.item()}
    for place, value in enumerate(model.parameters()):
        found[f"weight.{place}"] = as_keras(value.detach().numpy())
        found[f"gradient.{place}"] = as_keras(value.grad.numpy())
    np.savez(path, **found)


def by_tensorflow(path):
    import tensorflow as tf
    from tensorflow_training import bernoulli_gamma_loss, network

    known = np.load(path)
    model = network(FIELDS, POINTS)
    for place, variable in enumerate(model.trainable_variables):
        variable.assign(known[f"weight.{place}"])
    with tf.GradientTape() as tape:
        loss = bernoulli_gamma_loss(model(known["fields"]), tf.constant(known["rain"]))
    gradients = tape.gradient(loss, model.trainable_variables)
    off = [
        float(
            np.linalg.norm(one.numpy() - known[f"gradient.{place}"])
            / np.linalg.norm(known[f"gradient.{place}"])
        )
        for place, one in enumerate(gradients)
    ]
    print(json.dumps({"loss": abs(float(loss) / float(known["loss"]) - 1), "gradients": off}))


{"torch": by_torch, "tensorflow": by_tensorflow}[sys.argv[1]](sys.argv[2])
