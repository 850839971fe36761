"""What a prediction had to assume, and what it was told, as sentences."""

import math
from collections.abc import Iterator

from argosy.analysis.layer_times import LayerTimes
from argosy.analysis.phases import StepTime
from argosy.analysis.prediction import Horovod
from argosy.analysis.setups import NamedSetup, Setup, differences

# What decides how fast messages go.
_OF_NETWORK = ("image", "hardware", "launcher")
_NETWORK_VARIABLES = tuple(f"variable {name}" for name in ("NCCL_", "GLOO_", "UCX_", "FI_"))


def of_other_network(training: Setup, network: NamedSetup) -> Iterator[str]:
    """Yield a sentence where the allreduces were measured by other means than the training has."""
    for each in differences(training, network.setup):
        if each.what in _OF_NETWORK or each.what.startswith(_NETWORK_VARIABLES):
            yield (
                f"The allreduces of {network.name} have another {each.what} than the training: "
                f"{each.other} instead of {each.one}."
            )


def of_horovod(horovod: Horovod) -> Iterator[str]:
    """Yield what differs from Horovod's defaults."""
    if horovod != Horovod():
        yield (
            f"Horovod's cycle time is {1000 * horovod.cycle_s:g} ms and its fusion threshold "
            f"{horovod.fusion_threshold_bytes / 2**20:g} MiB, as the runs were told."
        )


def of_gradients(layers: LayerTimes, step: StepTime) -> Iterator[str]:
    """Yield whether it is known when gradients are ready."""
    if not layers.are_timed:
        yield "When gradients are ready was not measured; it is taken from their bytes."
    if not step.phases_s.get("backward"):
        yield "No phase `backward` is recorded; nothing of the communication is hidden."


def of_ranks(spread: float | None) -> str:
    """Return by how much ranks differ in a step."""
    if spread is None:
        return (
            "No steps of two ranks or more say what was the phase `communication`, so the slowest of many "
            "ranks is taken to be as slow as that of one node."
        )
    return (
        f"Ranks' own work differs by {100 * spread:.1f} % in a step (standard deviation), by which the "
        "slowest of more ranks takes longer."
    )


def of_two_nodes(are_measured: bool, by_chance: float) -> Iterator[str]:
    """Yield what two nodes tell of the network in training."""
    if not are_measured:
        yield "Nothing was measured on two nodes, so the network is taken to be as alone."
    elif math.isinf(by_chance):
        yield (
            "The runs on one node and on two do not tell how runs scatter, so the network is taken to be "
            "as alone; raise scale.repeats."
        )
