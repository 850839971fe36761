"""Print the differences to PyTorch as JSON: `tensorflow_gradients.py FOLDER SIZE MODEL…`."""

import json
import re
import sys

import numpy as np
import tensorflow as tf

sys.path.insert(0, "/workloads/tensorflow")
from models import MODELS

SEEDS = (3, 4, 5)
layers = tf.keras.layers
KINDS = {"conv": layers.Conv2D, "normal": layers.BatchNormalization, "dense": layers.Dense}
NAMES = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}


def in_order(model, kind):
    """Return the layers of a kind in the order of their creation, by their numbered names."""
    found = [layer for layer in model.layers if isinstance(layer, kind)]
    return sorted(found, key=lambda layer: int((re.findall(r"\d+$", layer.name) or ["0"])[0]))


def of_model(name, size, dtype, known, training=True):
    tf.keras.backend.clear_session()
    tf.keras.backend.set_floatx(dtype)
    tf.keras.mixed_precision.set_global_policy(dtype)
    model = MODELS[name](size, 10)
    keys = {}
    for kind, of_kind in KINDS.items():
        for place, layer in enumerate(in_order(model, of_kind)):
            for variable in layer.trainable_variables:
                last = variable.name.split("/")[-1].partition(":")[0]
                keys[variable.ref()] = key = f"{kind}.{place}.{NAMES[last]}"
                variable.assign(known[f"weight.{key}"])
    for layer in model.layers:
        if isinstance(layer, layers.Dropout):
            layer.rate = 0.0
    with tf.GradientTape() as tape:
        found = model(known["images"], training=training)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(
            known["labels"], found
        )
    gradients = tape.gradient(loss, model.trainable_variables)
    pairs = [
        (gradient.numpy(), known[f"gradient.{keys[variable.ref()]}"])
        for gradient, variable in zip(gradients, model.trainable_variables, strict=True)
    ]
    return {"loss": abs(float(loss) / float(known["loss"]) - 1), "gradients": distance(pairs)}


def distance(pairs):
    """Return the relative distance of all gradients together."""
    off = sum(float(np.sum((ours.astype(float) - theirs) ** 2)) for ours, theirs in pairs)
    return (off / sum(float(np.sum(theirs.astype(float) ** 2)) for _, theirs in pairs)) ** 0.5


folder, size, *names = sys.argv[1:]
told = {}
for name in names:
    both = {dtype: np.load(f"{folder}/{name}-{dtype}.npz") for dtype in ("float64", "float32")}
    told[name] = {dtype: of_model(name, int(size), dtype, known) for dtype, known in both.items()}
    keys = [key for key in both["float64"] if key.startswith("gradient.")]
    own = [(both["float32"][key], both["float64"][key]) for key in keys]
    told[name]["own"] = distance(own)
    told[name]["fixed"] = [
        of_model(
            name, int(size), "float32", np.load(f"{folder}/{name}-fixed-{seed}.npz"), training=False
        )
        for seed in SEEDS
    ]
print(json.dumps(told))
