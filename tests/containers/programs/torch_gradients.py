"""Write weights, loss and gradients of models for one batch: `torch_gradients.py FOLDER SIZE MODEL…`."""

import sys

import numpy as np
import torch

sys.path.insert(0, "/workloads/torch")
from models import MODELS

SEEDS = (3, 4, 5)
KINDS = {"conv": torch.nn.Conv2d, "normal": torch.nn.BatchNorm2d, "dense": torch.nn.Linear}


def as_keras(values):
    """Transpose the axes to TensorFlow's order."""
    return values.transpose({4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}[values.ndim])


def of_model(name, size, dtype, seed=3, training=True):
    torch.manual_seed(seed)
    model = MODELS[name](10).to(dtype).train(training)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    images = torch.randn(4, 3, size, size).to(dtype)
    labels = torch.tensor([0, 3, 5, 9])
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    found = {
        "images": images.numpy().transpose(0, 2, 3, 1),
        "labels": labels.numpy(),
        "loss": loss.item(),
    }
    for kind, of_kind in KINDS.items():
        modules = [one for one in model.modules() if isinstance(one, of_kind)]
        for place, module in enumerate(modules):
            for parameter, value in module.named_parameters():
                key = f"{kind}.{place}.{parameter}"
                found[f"weight.{key}"] = as_keras(value.detach().numpy())
                found[f"gradient.{key}"] = as_keras(value.grad.numpy())
    return found


folder, size, *names = sys.argv[1:]
for name in names:
    for dtype in (torch.float64, torch.float32):
        path = f"{folder}/{name}-{str(dtype).partition('.')[2]}.npz"
        np.savez(path, **of_model(name, int(size), dtype))
    # Normalise with the initial statistics instead of the batch's.
    for seed in SEEDS:
        fixed = of_model(name, int(size), torch.float32, seed, training=False)
        np.savez(f"{folder}/{name}-fixed-{seed}.npz", **fixed)
