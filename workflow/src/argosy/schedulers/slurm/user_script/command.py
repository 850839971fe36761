"""The command of an experiment: a batch script's program, with variables as ranks have them."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.schedulers.slurm.user_script.environment import OF_RANKS
from argosy.schedulers.slurm.user_script.job import Job
from argosy.schedulers.slurm.user_script.lines import is_open, variable_of

_RENAMED = {
    "SLURM_PROCID": "RANK",
    "SLURM_NTASKS": "WORLD_SIZE",
    "SLURM_NPROCS": "WORLD_SIZE",
    "SLURM_LOCALID": "LOCAL_RANK",
    "SLURM_NTASKS_PER_NODE": "LOCAL_WORLD_SIZE",
    "SLURM_NNODES": "GROUP_WORLD_SIZE",
    "SLURM_JOB_NUM_NODES": "GROUP_WORLD_SIZE",
    "SLURM_NODEID": "GROUP_RANK",
}
"""Ranks have no variables of Slurm; these have the same values."""
_OF_TORCH = re.compile(r"GROUP_\w+|MASTER_\w+")
"""Variables that only ranks of torch have."""
_NODES_OPTION = re.compile(r"(--?(?:\w+\.)?(?:num[-_]?nodes|nnodes))(?:=(\d+))?")


@dataclass(frozen=True)
class Command:
    """A command of ranks.

    Args:
        job: of the script.
        launcher: of the experiment.
        is_native: whether ranks run without a container.
    """

    job: Job
    launcher: str
    is_native: bool

    def of(self, marked: Sequence[str]) -> list[str]:
        """Return the command for words with marks; through a shell if it has variables."""
        words, paths, has_variables = [], ["bash"], False
        for before, word in zip(["", *marked], marked, strict=False):
            quoted = self._with_nodes(before, word) or self.job.script.shell_word(
                word, self._of_rank
            )
            has_variables = has_variables or "${" in quoted.removeprefix(shlex.quote(word))
            if not quoted:
                said = "ranks do not have this: write the value into the experiment's command"
                self.job.script.leave(self.job.statement.line, word, said)
                quoted = shlex.quote(self.job.script.restored(word))
            elif "/workloads/" in word and not is_open(word):
                # Without a container it becomes the project's folder, so no shell may read it as text.
                paths.append(word)
                quoted = f'"${{{len(paths) - 1}}}"'
            words.append(quoted)
        if has_variables:
            return ["bash", "-c", f"exec {' '.join(words)}", *(paths if len(paths) > 1 else [])]
        return list(map(self.job.script.restored, marked))

    def _with_nodes(self, before: str, word: str) -> str:
        """Return the word that tells the program its number of nodes, which is another at each size."""
        nodes, option = str(self.job.sizes.nodes), _NODES_OPTION.fullmatch(word)
        if self.launcher != "torch" or nodes == "1":
            return ""
        if option and option[2] == nodes:
            return f'{option[1]}="${{GROUP_WORLD_SIZE}}"'
        option = _NODES_OPTION.fullmatch(before)
        is_value = option and not option[2] and word == nodes
        return '"${GROUP_WORLD_SIZE}"' if is_value else ""

    def _of_rank(self, expansion: str) -> str:
        """Return what stands for a variable of the script in a rank; empty without such a one."""
        name = variable_of(expansion)
        constants = {
            "SLURM_CPUS_PER_TASK": self.job.sizes.cpus_per_rank,
            "SLURM_GPUS_ON_NODE": self.job.sizes.gpus_per_node,
            "SLURM_GPUS_PER_NODE": self.job.sizes.gpus_per_node,
        }
        if name in constants:
            return str(constants[name])
        name = _RENAMED.get(name, name)
        is_known = name in _RENAMED.values() or (self.is_native and not OF_RANKS.fullmatch(name))
        if _OF_TORCH.fullmatch(name):
            is_known = self.launcher == "torch"
        return f"${{{name}}}" if name and is_known else ""
