"""An experiment expands to runs: one for each point and repeat, with ids that stay the same."""

from typing import Literal

from argosy.study.models import Checkpoints, Config, Experiment, Model, Name, Needs
from argosy.units import Count


class Run(Model):
    """One point of an experiment, measured once, as a job of its own; all that decides its outcome.

    It does not know of the other points and repeats, so adding some leaves it as it is.
    """

    experiment: Name
    nodes: Count
    ranks_per_node: Count
    repeat: Count
    scaling: Literal["strong", "weak"]
    image: Name | None
    command: tuple[str, ...]
    launcher: Literal["horovod", "plain"]
    runtime: Literal["udocker", "native"]
    needs: Needs
    checkpoints: Checkpoints | None
    throughput: str | None

    @property
    def run_id(self) -> str:
        """The run's folder name; it depends on the point and the repeat alone."""
        return f"nodes{self.nodes}-ranks{self.ranks_per_node}-repeat{self.repeat}"


def expand(config: Config) -> list[Run]:
    """All runs of the configuration, by experiment, node count and repeat."""
    return [
        _run(name, experiment, nodes, repeat)
        for name, experiment in config.experiments.items()
        for nodes in sorted(experiment.scale.nodes)
        for repeat in range(1, experiment.scale.repeats + 1)
    ]


def _run(name: str, experiment: Experiment, nodes: int, repeat: int) -> Run:
    return Run(
        experiment=name,
        nodes=nodes,
        ranks_per_node=experiment.scale.ranks_per_node,
        repeat=repeat,
        scaling=experiment.scale.kind,
        **experiment.model_dump(exclude={"scale"}),
    )
