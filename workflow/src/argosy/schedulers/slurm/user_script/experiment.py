"""The experiment that a batch script becomes."""

import re
import shlex
from dataclasses import dataclass, replace
from typing import Any

from argosy.schedulers.slurm.user_script.command import Command
from argosy.schedulers.slurm.user_script.container import Container
from argosy.schedulers.slurm.user_script.environment import Environment
from argosy.schedulers.slurm.user_script.job import Job
from argosy.schedulers.slurm.user_script.launch import STARTERS
from argosy.shipped.program import Program
from argosy_common.units import duration

_DEFAULT_WARNING_S = 60
_BY_TASKS = (
    "Argosy takes the place of {}: it starts one task on each node, and that starts the ranks"
)
_OTHERS = {
    "container": "Argosy starts the container: GPUs come by gpus_per_rank, files of the host by `data`",
    "torch": "Argosy takes the place of {}: set what it sets in the program, or by environment",
    "srun": _BY_TASKS,
    "mpi": _BY_TASKS,
}
"""Why other options of launchers are not taken, by their kinds."""


@dataclass(frozen=True)
class Experiment:
    """The experiment of a job; making it notes where its keys come from.

    Args:
        job: of the script.
        environment: of the ranks.
        container: of the launch line.
        program: its words have marks in the place of what is not known.
    """

    job: Job
    environment: Environment
    container: Container
    program: Program

    def keys(self, image: str | None) -> dict[str, Any]:
        """Return the keys of the experiment; `image` is the one that the user names."""
        job, sizes = self.job, self.job.sizes
        is_native = self.environment.is_native
        found = {"runtime": "native"} if is_native else {"image": self.container.image(image)}
        restored = [job.script.restored(word) for word in self.program.words]
        program = replace(self.program, words=restored)
        launcher = self._launcher(program)
        command = Command(job, launcher, is_native).of(self.program.command)
        keys = {
            **found,
            "command": shlex.join(command),
            "launcher": launcher,
            "scale": {
                "kind": "strong",
                "nodes": sizes.scale,
                "ranks_per_node": sizes.ranks_per_node,
                "repeats": 3,
            },
            "resources": sizes.resources,
            "checkpoints": self._checkpoints(),
            "environment": {**program.environment, **self.environment.variables},
            "data": self.container.data_keys,
        }
        return {key: value for key, value in keys.items() if value}

    def _launcher(self, program: Program) -> str:
        """Return the launcher, and note what the launch line became."""
        job, sizes = self.job, self.job.sizes
        is_horovod = "horovodrun" in job.launch.starters
        launcher = "torch" if job.launch.is_torch else "horovod" if is_horovod else program.launcher
        scale = f"scale.nodes: {sizes.scale}, ranks_per_node: {sizes.ranks_per_node}"
        line = job.statement.line
        text = " ".join(job.statement.words)
        job.script.take(line, text, f"command; launcher: {launcher}; {scale}")
        for name, option, value in job.launch.other:
            kind = "container" if "container-" in option else STARTERS[name].kind
            text = f"{name} {option} {value}".strip()
            job.script.leave(line, text, _OTHERS[kind].format(name))
        if job.statement.redirected:
            text = " ".join(job.statement.redirected).replace(">& ", ">&")
            job.script.leave(line, text, "the output is in the run's folder: argosy logs RUN")
        if sizes.gpus_per_node % sizes.ranks_per_node:
            said = "does not give each rank as many: correct ranks_per_node and gpus_per_rank"
            text = f"{sizes.gpus_per_node} GPUs for {sizes.ranks_per_node} ranks of a node"
            job.script.leave(line, text, said)
        return launcher

    def _checkpoints(self) -> dict[str, Any]:
        signal = self.job.options.get("signal")
        if not signal:
            return {}
        warning = _warning_s(signal.value)
        if warning is None:
            said = "Argosy warns by SIGUSR1: let the program listen to it, and add `checkpoints`"
            self.job.script.leave(signal.line, signal.text, said)
            return {}
        text = duration(warning)
        self.job.script.take(signal.line, signal.text, f"checkpoints.warning: {text}")
        requeues = {"requeues": 0} if "no-requeue" in self.job.options else {}
        return {"warning": text, **requeues}


def _warning_s(value: str) -> int | None:
    """Return the seconds before the limit of `--signal`; None for another signal than SIGUSR1."""
    found = re.fullmatch(r"(?:[BR]+:)?(?:SIG)?(USR1|10)(?:@(\d{1,6}))?", value.strip("'\""))
    return (int(found[2]) if found[2] else _DEFAULT_WARNING_S) or None if found else None
