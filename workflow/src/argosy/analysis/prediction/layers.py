"""What a prediction has to know of a model: its gradients, and the work of a rank in a step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

BEFORE_FORWARD = ("data", "h2d", "other")


@dataclass(frozen=True)
class Layer:
    """A layer's gradient, of `parameters_bytes`, is ready after `backward_s` of its own."""

    name: str
    parameters_bytes: float
    backward_s: float


@dataclass(frozen=True)
class Model:
    """A rank's own work in a step of `samples` samples, without communication.

    `layers` are in the order of back-propagation, the last layer of the model first. `data_s` is
    all that comes before the forward pass.
    """

    layers: tuple[Layer, ...]
    forward_s: float
    update_s: float
    data_s: float
    samples: float

    @property
    def backward_s(self) -> float:
        """Of all layers."""
        return sum(layer.backward_s for layer in self.layers)

    @property
    def own_s(self) -> float:
        """The step without communication."""
        return self.data_s + self.forward_s + self.backward_s + self.update_s


def split_layers(parameters_bytes: Mapping[str, float], backward_s: float) -> tuple[Layer, ...]:
    """Layers by name, in the order of back-propagation, when only the whole pass was measured.

    Each takes the part of the time that it has of the parameters, a plausible split for dense
    layers. Raises ValueError when there are no parameters.
    """
    return split_by(parameters_bytes, backward_s, list(parameters_bytes.values()))


def split_by(
    parameters_bytes: Mapping[str, float], backward_s: float, weights: Sequence[float]
) -> tuple[Layer, ...]:
    """Split as `split_layers` does, by the `weights` of the layers, for instance their operations.

    Raises ValueError when the weights are not one for each layer or do not add up to more than 0.
    """
    whole = sum(weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("the time of layers is split by weights that are positive together")
    named = zip(parameters_bytes.items(), weights, strict=True)
    return tuple(Layer(name, size, backward_s * part / whole) for (name, size), part in named)


def model_of_phases(
    layers: Sequence[Layer], phases_s: Mapping[str, float], samples: float
) -> Model:
    """Return the model of measured mean `phases_s` (see `analysis.phases`), for instance at one node.

    The times of the layers are scaled to the phase `backward`. The phase `communication` is left
    out: it is what a prediction is about. Raises ValueError when the layers take no time.
    """
    weights = [layer.backward_s for layer in layers]
    sizes = {layer.name: layer.parameters_bytes for layer in layers}
    return Model(
        layers=split_by(sizes, phases_s.get("backward", 0.0), weights),
        forward_s=phases_s.get("forward", 0.0),
        update_s=phases_s.get("update", 0.0),
        data_s=sum(phases_s.get(name, 0.0) for name in BEFORE_FORWARD),
        samples=samples,
    )


def with_samples(model: Model, samples: float) -> Model:
    """Return the model with other samples a step: all but the update takes time in proportion."""
    if samples == model.samples:
        return model
    slower = slowed(model, samples / model.samples)
    return replace(slower, update_s=model.update_s, samples=samples)


def slowed(model: Model, factor: float) -> Model:
    """Return the model with all of its own work `factor` times as long."""
    if factor == 1:
        return model
    layers = [
        Layer(layer.name, layer.parameters_bytes, layer.backward_s * factor)
        for layer in model.layers
    ]
    return replace(
        model,
        layers=tuple(layers),
        forward_s=model.forward_s * factor,
        update_s=model.update_s * factor,
        data_s=model.data_s * factor,
    )
