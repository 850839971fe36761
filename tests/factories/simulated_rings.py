"""Trainings on networks that are simulated message by message, which no model of a prediction knows.

Each rank, one a node, sends its next part of a ring when the part before has come; each message takes its
own time. Gradients are exchanged one after the other as they become ready on the slowest rank.
"""

import math
from dataclasses import dataclass

import numpy as np

from argosy.report.statistics.estimates import geometric_mean_estimate, ratio_estimate
from argosy.report.topics.prediction.communication import AllreduceTime, fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.step import Horovod, Model, split_layers
from argosy.report.topics.prediction.training import KnownTraining, Scatter, Training, calibrate

MODEL = Model(
    split_layers({f"layer{number}": 1e7 for number in range(8)}, 0.1),
    forward_s=0.05,
    update_s=0.01,
    data_s=0.01,
    samples=64,
)
HOROVOD = Horovod(1e-3, 1e7)
MEASURED = (2, 4)
RUNS, JOBS, STEPS = 3, 3, 4
MESSAGE_BYTES = (1e3, 1e5, 1e6, 1e7)


@dataclass(frozen=True)
class World:
    """A network: seconds of a message and of a byte, and how much of the rate each further node takes.

    `own_sd` is by how much the ranks' own work differs from step to step, `message_sd` that of messages.
    """

    latency_s: float
    byte_s: float
    shared: float = 0.0
    own_sd: float = 0.01
    message_sd: float = 0.05


WORLDS = {
    "fast": World(20e-6, 1 / 5e9),
    "slow": World(200e-6, 1 / 0.5e9),
    "shared uplink": World(50e-6, 1 / 1e9, shared=0.08),
}


def ring_s(world: World, data_bytes: float, nodes: int, chance: np.random.Generator) -> float:
    """Seconds of one allreduce."""
    if nodes == 1:
        return 0.0
    # Up to two nodes the uplink is each one's own.
    byte_s = world.byte_s * (1 + world.shared * (nodes - 2))
    one_s = world.latency_s + data_bytes / nodes * byte_s
    done_s = np.zeros(nodes)
    for _ in range(2 * (nodes - 1)):
        messages_s = one_s * np.exp(world.message_sd * chance.standard_normal(nodes))
        done_s = np.maximum(done_s, np.roll(done_s, 1)) + messages_s
    return float(done_s.max())


def step_s(world: World, nodes: int, chance: np.random.Generator) -> float:
    """Seconds of one step."""
    slow = float(np.exp(world.own_sd * chance.standard_normal(nodes)).max())
    begin_s = slow * (MODEL.data_s + MODEL.forward_s)
    free_s = ready_s = begin_s
    for layer in MODEL.layers:
        ready_s += slow * layer.backward_s
        if nodes == 1:
            free_s = ready_s
            continue
        asked_s = ring_s(world, 8.0, nodes, chance) / 2
        sent_s = ring_s(world, layer.parameters_bytes, nodes, chance)
        free_s = max(free_s, ready_s) + asked_s + sent_s
    return max(free_s, ready_s) + slow * MODEL.update_s


def run_s(world: World, nodes: int, scatter: float, chance: np.random.Generator) -> float:
    """Mean step of a run, which scatters as a whole."""
    mean_s = float(np.mean([step_s(world, nodes, chance) for _ in range(STEPS)]))
    return mean_s * math.exp(scatter * chance.standard_normal())


def true_step_s(world: World, nodes: int, steps: int = 400) -> float:
    """The step in the mean of many."""
    chance = np.random.default_rng([nodes, steps])
    return float(np.mean([step_s(world, nodes, chance) for _ in range(steps)]))


def known_training_of(world: World, scatter: float, chance: np.random.Generator) -> KnownTraining:
    """What Argosy makes of steps on one node and two, and of allreduces on two and four."""
    network = fit_communication(_times(world, chance))
    assert isinstance(network, Communication)
    steps_s = {
        nodes: [run_s(world, nodes, scatter, chance) for _ in range(RUNS)] for nodes in (1, 2)
    }
    ratio = ratio_estimate(steps_s[1], steps_s[2])
    assert ratio.high is not None
    means = {nodes: geometric_mean_estimate(each).mean for nodes, each in steps_s.items()}
    training = Training(MODEL, network, 1, "weak", HOROVOD, spread=world.own_sd)
    calibrated = calibrate(training, means, math.log(ratio.high / ratio.mean))
    assert isinstance(calibrated, Training)
    return KnownTraining(calibrated, means, Scatter.of(steps_s), "network")


def _times(world: World, chance: np.random.Generator) -> list[AllreduceTime]:
    return [
        AllreduceTime(size, nodes, 1, effect * ring_s(world, size, nodes, chance), f"{nodes}-{job}")
        for nodes in MEASURED
        for job in range(JOBS)
        for effect in [math.exp(0.01 * chance.standard_normal())]
        for size in MESSAGE_BYTES * 2
    ]
