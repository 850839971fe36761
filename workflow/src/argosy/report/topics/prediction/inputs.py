"""Build a training for predictions from measurements, and note its assumptions."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import LOST, MUCH_LOST
from argosy.report.runs.setups import NamedSetup, Setup, differences
from argosy.report.runs.study_tables import StudyTables
from argosy.report.topics.laws.fits import Interval, Refused
from argosy.report.topics.phases import StepTime
from argosy.report.topics.prediction.communication import (
    FEWEST_JOBS,
    AllreduceTime,
    fit_communication,
)
from argosy.report.topics.prediction.measured import (
    LayerTimes,
    Repeats,
    Scaling,
    allreduce_times,
    horovod_settings,
    layer_times,
    rank_spreads,
    scaling_of_batches,
    two_nodes,
    widest,
)
from argosy.report.topics.prediction.network import ALGORITHMS, Communication, Level
from argosy.report.topics.prediction.step import Horovod, model_of_phases
from argosy.report.topics.prediction.training import KnownTraining, Scatter, Training, calibrate
from argosy.report.topics.usage import Usage, of_widest

# Properties of a setup that affect the network.
_OF_NETWORK = ("image", "hardware", "launcher")
_NETWORK_VARIABLES = tuple(f"variable {name}" for name in ("NCCL_", "GLOO_", "UCX_", "FI_"))


def of_other_network(training: Setup, network: NamedSetup) -> Iterator[str]:
    """Yield a sentence for each network property in which allreduces and training differ."""
    for each in differences(training, network.setup):
        if each.what in _OF_NETWORK or each.what.startswith(_NETWORK_VARIABLES):
            yield (
                f"The allreduces of {network.name} and the training differ in {each.what}: "
                f"{each.other} instead of {each.one}."
            )


def of_horovod(horovod: Horovod) -> Iterator[str]:
    """Yield a sentence if Horovod's settings differ from the defaults."""
    if horovod != Horovod():
        yield (
            f"Horovod's cycle time is {1000 * horovod.cycle_s:g} ms and its fusion threshold "
            f"{horovod.fusion_threshold_bytes / 2**20:g} MiB, as set for the runs."
        )


def of_gradients(layers: LayerTimes, step: StepTime) -> Iterator[str]:
    """Yield sentences on missing times of gradients and of the backward phase."""
    if not layers.are_timed:
        yield "The ready times of gradients were not measured; they are estimated from bytes."
    if not step.phases_s.get("backward"):
        yield "No phase `backward` is recorded, so no communication is hidden."


def of_ranks(spread: float | None) -> str:
    """Describe the spread of ranks within a step."""
    if spread is None:
        return (
            "No steps of two or more ranks have the phase `communication`, so the slowest rank "
            "is assumed to be no slower on more nodes."
        )
    return (
        f"Ranks' own work differs by {100 * spread:.1f} % in a step (standard deviation), so the "
        "slowest of more ranks takes longer."
    )


def of_scatter(scatter: Scatter | None, is_lost: bool) -> Iterator[str]:
    """Yield a sentence if no prediction has an interval."""
    if is_lost:
        yield f"The prediction uses sizes of which {LOST}, so it has no interval."
    elif scatter is None:
        yield (
            "No size has two runs, so the scatter of runs is unknown, and no prediction has an interval."
        )


def of_two_nodes(are_measured: bool, by_chance: float) -> Iterator[str]:
    """Yield a sentence if steps on two nodes cannot calibrate the network."""
    if not are_measured:
        yield (
            "Nothing was measured on two nodes, so the network is assumed to be as fast as in "
            "the benchmark."
        )
    elif math.isinf(by_chance):
        yield (
            "The runs on one node and on two do not show how runs scatter, so the network is "
            "assumed to be as fast as in the benchmark; raise scale.repeats."
        )


# Horovod's algorithm over Gloo, assumed if the measurements cannot identify one.
_ASSUMED = {"ring": ALGORITHMS["ring"]}


@dataclass(frozen=True)
class Measured:
    """Measurements of all experiments that predictions use."""

    setups: Mapping[str, NamedSetup]
    allreduces: Mapping[str, list[AllreduceTime]]
    layers: Mapping[tuple[str, Point], LayerTimes]
    steps: Mapping[tuple[str, Point], StepTime]
    horovod: Mapping[tuple[str, Point], Horovod]
    runs: Sequence[Measurement]
    usage: Mapping[tuple[str, str], Usage]
    spreads: Mapping[tuple[str, Point], float]


def everything(
    tables: StudyTables,
    runs: Sequence[Measurement],
    steps: Mapping[tuple[str, Point], StepTime],
    used: Mapping[tuple[str, str], Usage],
) -> Measured:
    """Read all measurements for predictions; some were read before."""
    return Measured(
        tables.setups,
        allreduce_times(tables),
        layer_times(tables),
        steps,
        horovod_settings(tables),
        runs,
        used,
        rank_spreads(tables),
    )


def known_training(
    found: Measured, experiment: str, collectives: str | None = None
) -> KnownTraining | Refused:
    """Return the training of `experiment`, with the network of the experiment `collectives`.

    `collectives` may be None if only one experiment measured allreduces.
    """
    if refused := _other_exchange(found, experiment):
        return refused
    network = _network(found, collectives)
    if isinstance(network, Refused):
        return network
    name, communication, told = network
    repeats = Repeats.of(experiment, found.runs, found.steps)
    points = sorted(repeats.steps)
    base = max((point for point in points if point.nodes == 1), default=None)
    if base is None:
        return Refused(
            "A prediction needs steps recorded on one node; include 1 in the list scale.nodes "
            "and run it."
        )
    training = _training(found, experiment, base, communication)
    if isinstance(training, Refused):
        return training
    measured_s = {
        point.nodes: repeats.step_s(point)
        for point in points
        if point.ranks_per_node == base.ranks_per_node
    }
    corrected = calibrate(
        training,
        {nodes: step_s for nodes, step_s in measured_s.items() if nodes <= 2},
        repeats.by_chance(base),
    )
    if isinstance(corrected, Refused):
        return corrected
    notes = (
        *told,
        *of_other_network(found.setups[experiment].setup, found.setups[name]),
        *of_horovod(training.horovod),
        *of_gradients(found.layers[experiment, base], repeats.steps[base]),
        of_ranks(widest(found.spreads, experiment, base)),
        *of_two_nodes(2 in measured_s, repeats.by_chance(base)),
    )
    is_lost = _is_lost(found, name) or _is_lost(found, experiment, base, two_nodes(base))
    scatter = None if is_lost else repeats.scatter(base)
    return KnownTraining(
        corrected,
        measured_s,
        scatter,
        collectives=name,
        power_w=_power_w(found, experiment, base),
        notes=(*notes, *of_scatter(scatter, is_lost)),
    )


def _is_lost(found: Measured, experiment: str, *points: Point) -> bool:
    """Return whether too many runs of one of these sizes, or of any size, were lost."""
    return any(
        run.lost >= MUCH_LOST
        for run in found.runs
        if run.experiment == experiment and (not points or run.point in points)
    )


def _other_exchange(found: Measured, experiment: str) -> Refused | None:
    """Return why the model of the gradient exchange does not apply; None if it does."""
    if experiment in found.allreduces:
        return Refused("It measures allreduces and trains nothing.")
    if found.setups[experiment].setup.launcher == "torch":
        return Refused(
            "Predictions model Horovod's exchange of gradients, but the launcher is torch."
        )
    return None


def _network(
    found: Measured, wanted: str | None
) -> tuple[str, Communication, tuple[str, ...]] | Refused:
    known = sorted(found.allreduces)
    if not known:
        return Refused(
            "No allreduces were measured; run /workloads/torch/collectives.py as an experiment on 2 "
            "and 4 nodes (config/README.md)."
        )
    if wanted is None and len(known) > 1:
        return Refused(
            f"Several experiments measured allreduces: {', '.join(known)}; choose one with "
            "--collectives."
        )
    name = wanted or known[0]
    if name not in found.allreduces:
        return Refused(f"Experiment {name} measured no allreduces; {', '.join(known)} did.")
    times = found.allreduces[name]
    several = len({time.nodes * time.ranks_per_node for time in times} - {1}) > 1
    fitted = fit_communication(times) if several else fit_communication(times, _ASSUMED)
    if isinstance(fitted, Refused):
        return Refused(f"Allreduces of {name}: {fitted.reason}")
    told = []
    if not several:
        told.append(
            "Allreduces over one number of ranks cannot show the algorithm; a ring is assumed."
        )
    if fitted.jobs is not None and fitted.jobs < FEWEST_JOBS:
        jobs = "one job" if fitted.jobs == 1 else "two jobs"
        told.append(
            f"The allreduces of {name} come from only {jobs}, so intervals exclude network "
            "differences between jobs; raise its scale.repeats."
        )
    if _is_lost(found, name):
        levels = _unsure(fitted.within_node), _unsure(fitted.between_nodes)
        fitted = replace(fitted, within_node=levels[0], between_nodes=levels[1])
    return name, fitted, tuple(told)


def _unsure(level: Level | None) -> Level | None:
    """Return a network without intervals."""
    if level is None:
        return None
    ends = (Interval(one.value, 0.0, math.inf) for one in (level.latency_s, level.s_per_byte))
    return Level(*ends)


def _training(
    found: Measured, experiment: str, base: Point, communication: Communication
) -> Training | Refused:
    recorded = found.layers.get((experiment, base))
    if recorded is None:
        return Refused(
            "No gradients were recorded on one node; use argosy_layers in the program, or "
            "Recorder.layers (docs/writing-a-training-program.md)."
        )
    samples = {
        point: step.samples or 0.0 for (of, point), step in found.steps.items() if of == experiment
    }
    if not samples[base]:
        return Refused("The steps on one node have no samples.")
    scaling = scaling_of_batches(samples, base, _asked(found, experiment))
    if isinstance(scaling, Refused):
        return scaling
    phases_s = found.steps[experiment, base].phases_s
    return Training(
        model=model_of_phases(recorded.layers, phases_s, samples[base]),
        communication=communication,
        ranks_per_node=base.ranks_per_node,
        scaling=scaling,
        horovod=found.horovod.get((experiment, base), Horovod()),
        spread=widest(found.spreads, experiment, base) or 0.0,
    )


def _asked(found: Measured, experiment: str) -> Scaling:
    """Return scale.kind of the experiment."""
    kinds = {run.scaling for run in found.runs if run.experiment == experiment}
    return "weak" if kinds == {"weak"} else "strong"


def _power_w(found: Measured, experiment: str, point: Point) -> float | None:
    """Return the mean power of a node, over the runs that measured the most devices."""
    runs = [run.run_id for run in found.runs if (run.experiment, run.point) == (experiment, point)]
    used = [found.usage[experiment, run] for run in runs if (experiment, run) in found.usage]
    powers = [one.power_w for one in of_widest(used) if one.power_w is not None]
    return mean(powers) / point.nodes if powers else None
