"""Converts a batch script's job into an experiment."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from argosy.schedulers.slurm.user_script.container import Container
from argosy.schedulers.slurm.user_script.environment import Environment
from argosy.schedulers.slurm.user_script.job import Job
from argosy.schedulers.slurm.user_script.launch import CONTAINERS, MORE, STARTERS
from argosy.schedulers.slurm.user_script.lines import OF_RANKS, is_open, variable_of
from argosy.shipped.program import Program
from argosy.study.shell_words import JOB_NUMBERS, OF_SLURM, RUN_NUMBER
from argosy_common.units import duration

_DEFAULT_WARNING_S = 60
_SIGNAL = re.compile(r"(?:[BR]+:)?(?:SIG)?(?:USR1|10)(?:@(\d{1,6}))?")
_OF_CONTAINER = (
    "Argosy starts the container: request GPUs by gpus_per_rank, mount files of the host by `data`"
)
_OF_TORCHRUN = "Argosy replaces {}: set this in the program, or by environment"
_OF_TASKS = "Argosy replaces {}: it starts one task on each node, which starts the ranks"
_OF_ONE_PROGRAM = (
    "all ranks start one program: let it choose by its rank, or start the other from it"
)
_REASONS = {
    **dict.fromkeys(CONTAINERS, _OF_CONTAINER),
    "torch": _OF_TORCHRUN,
    **dict.fromkeys(("srun", "mpi"), _OF_TASKS),
}
"""Reasons why other options of launchers have no key, by kind of launcher."""
_OF_TORCH = ("GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables that only ranks of torch have."""
_NODES_OPTION = re.compile(r"--?(?:\w+\.)?(?:num[-_]?nodes|nnodes)")
_WITH_PLACEHOLDER = re.compile(r"[\w./=-]*\{\w+\}[\w./-]*")


@dataclass(frozen=True)
class Experiment:
    """The experiment of a job; `keys` notes the origin of each key.

    Args:
        job: the script's job.
        environment: the environment of the ranks.
        container: the container of the launch line.
        marked: the program, with marks for unknown parts of its words.
    """

    job: Job
    environment: Environment
    container: Container
    marked: Program

    @property
    def program(self) -> Program:
        """The program with the words of the script."""
        return replace(self.marked, words=list(map(self.job.script.restored, self.marked.words)))

    @property
    def launcher(self) -> str:
        """The launcher of the script; without torch or Horovod there, the launcher for the program."""
        if self.job.launch.is_torch:
            return "torch"
        is_horovod = "horovodrun" in self.job.launch.starters
        return "horovod" if is_horovod else self.program.launcher

    def keys(self, image: str | None) -> dict[str, Any]:
        """Return the keys of the experiment; `image` is the user's choice."""
        is_native, sizes = self.environment.is_native, self.job.sizes
        runtime = (
            {"runtime": "native"}
            if is_native
            else {"image": self.container.image(image, self.program.image)}
        )
        self._note_launch()
        checkpoints: dict[str, Any] = {}
        if signal := self.job.options.get("signal"):
            self.job.script.note(signal.line, signal.text, lambda: self._checkpoints(checkpoints))
        keys = {
            **runtime,
            "command": self._command(),
            "launcher": self.launcher,
            "scale": {
                "kind": "strong",
                "nodes": sizes.scale,
                "ranks_per_node": sizes.ranks_per_node,
                "repeats": 3,
            },
            "resources": dict(sizes.resources),
            "checkpoints": checkpoints,
            "environment": {**self.program.environment, **self.environment.variables},
            "data": self.container.data_keys,
        }
        return {key: value for key, value in keys.items() if value}

    def _note_launch(self) -> None:
        """Note the keys of the launch line, and its parts without a key."""
        job, sizes = self.job, self.job.sizes
        scale = f"scale.nodes: {sizes.scale}, ranks_per_node: {sizes.ranks_per_node}"
        key = f"command; launcher: {self.launcher}; {scale}"
        job.script.take(job.statement.line, " ".join(job.statement.words), key)
        for name, option, value in job.launch.other:
            reason = _OF_CONTAINER if "container-" in option else _REASONS[STARTERS[name]]
            reason = _OF_ONE_PROGRAM if option == MORE else reason.format(name)
            job.leave(f"{name} {option} {value}".strip(), reason)
        if job.statement.redirected:
            text = " ".join(job.statement.redirected).replace(">& ", ">&")
            job.leave(text, "the output is in the run's folder: argosy logs RUN")
        if sizes.gpus_per_node % sizes.ranks_per_node:
            text = f"{sizes.gpus_per_node} GPUs for {sizes.ranks_per_node} ranks of a node"
            said = "cannot be divided equally: correct ranks_per_node and gpus_per_rank"
            job.leave(text, said)

    def _command(self) -> str:
        """Return the command; through a shell if it has variables."""
        script = self.job.script
        marked = [
            script.filled(word, self._value) for word in self._with_nodes(self.marked.command)
        ]
        marked = [word for word in marked if not self._is_argument(word)]
        words, paths, has_variables = [], ["bash"], False
        for word in marked:
            quoted = script.shell_word(word, self._of_rank) if is_open(word) else _quoted(word)
            has_variables = has_variables or is_open(word)
            if "/workloads/" in word and not is_open(word):
                # In native runs the project's folder replaces it, which the shell must not parse.
                paths.append(word)
                quoted = f'"${{{len(paths) - 1}}}"'
            words.append(quoted)
        for word, quoted in zip(marked, words, strict=True):
            if not quoted:
                said = (
                    "ranks do not have this variable: write the value into the experiment's command"
                )
                self.job.leave(word, said)
        # A shell expands unknown variables to nothing; without a shell `snakemake -n` rejects them.
        if has_variables and all(words):
            exec_line = f"exec {' '.join(words)}"
            return shlex.join(["bash", "-c", exec_line, *(paths if len(paths) > 1 else [])])
        return " ".join(map(_quoted, map(script.restored, marked)))

    def _is_argument(self, word: str) -> bool:
        """Return whether a word stands for the script's own arguments, and note that there are none."""
        is_argument = self.job.script.restored(word) in ("$@", "$*", "${@}", "${*}")
        if is_argument and is_open(word):
            self.job.leave(
                word, "arguments of the script: write them into the experiment's command"
            )
        return is_argument and is_open(word)

    def _with_nodes(self, words: Sequence[str]) -> list[str]:
        """Replace the number of nodes in the words by a placeholder, since it differs by size."""
        nodes = str(self.job.sizes.nodes)
        found = []
        for before, word in pairwise(["", *words]):
            option, _, value = word.rpartition("=")
            if nodes != "1" and value == nodes and _NODES_OPTION.fullmatch(option or before):
                found.append(f"{option}={{nodes}}" if option else "{nodes}")
            else:
                found.append(word)
        return found

    def _value(self, expansion: str) -> str:
        """Return the value of a variable of the script, or a placeholder for it; empty without one."""
        name = variable_of(expansion)
        if name == "SLURM_CPUS_PER_TASK":
            return str(self.job.sizes.resources["cpus_per_rank"])
        if name in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"):
            return str(self.job.sizes.gpus_per_node)
        if name == "SLURM_GPUS_PER_TASK":
            return str(self.job.sizes.resources.get("gpus_per_rank", 0))
        if name == "SLURM_JOB_NAME":
            return "{experiment}"
        if name in JOB_NUMBERS:
            said = f"{RUN_NUMBER} in the command: unique for each run, but not numeric"
            self.job.script.take(self.job.statement.line, expansion, said)
            return RUN_NUMBER
        return ""

    def _of_rank(self, expansion: str) -> str:
        """Return the variable of a rank that replaces a variable of the script; empty without one."""
        name = variable_of(expansion)
        name = OF_SLURM.get(name, name)
        is_of_script = self.environment.is_native and not OF_RANKS.fullmatch(name)
        is_known = name in OF_SLURM.values() or is_of_script
        if name in _OF_TORCH:
            is_known = self.launcher == "torch"
        return f"${{{name}}}" if name and is_known else ""

    def _checkpoints(self, found: dict[str, Any]) -> str:
        """Add the key `checkpoints` for the job's signal. Raises ValueError for other signals."""
        signal = _SIGNAL.fullmatch(self.job.options["signal"].value.strip("'\""))
        seconds = int(signal[1] or _DEFAULT_WARNING_S) if signal else 0
        if not seconds:
            said = "Argosy sends SIGUSR1: let the program handle it, and add `checkpoints`"
            raise ValueError(said)
        found["warning"] = duration(seconds)
        if "no-requeue" in self.job.options:
            found["requeues"] = 0
        return f"checkpoints.warning: {found['warning']}"


def _quoted(word: str) -> str:
    """Quote a word for a command; a placeholder needs no quotes."""
    return word if _WITH_PLACEHOLDER.fullmatch(word) else shlex.quote(word)
