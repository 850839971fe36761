"""Variables and commands of a shell in words that no shell reads: a program would get them as text."""

import re
from collections.abc import Mapping, Sequence

from argosy.study.command_launchers import shell_text

PLACEHOLDERS = {
    **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "{nodes}"),
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), "{ranks}"),
    "SLURM_NTASKS_PER_NODE": "{ranks_per_node}",
}
"""Variables of Slurm, and the placeholders of the same value."""
OF_SLURM = {"SLURM_PROCID": "RANK", "SLURM_LOCALID": "LOCAL_RANK", "SLURM_NODEID": "GROUP_RANK"}
"""Ranks have no variables of Slurm; these have the same values."""
JOB_NUMBERS = ("SLURM_JOB_ID", "SLURM_JOBID")
RUN_NUMBER = "{nodes}x{ranks_per_node}-{repeat}"
"""Stands for the job's number: each run of an experiment has another."""
_NAME = r"[A-Za-z_]\w*"
_OPERATOR = r"(?::[-=?+0-9]|[-?+=#%/^,])[^{}]*"
_EXPANSION = re.compile(
    rf"(?<![\\$])\$(?:({_NAME})|[0-9@*#]|\{{(?:{_NAME}|[0-9@*]+)(?:{_OPERATOR})?\}}|\(\(?[^()]+\)?\))|`[^`]+`"
)
"""A variable, a positional parameter, or a command whose output a shell puts there."""
_OF_SLURM = re.compile(r"(?<![\\$])\$\{?(S(?:LURM|BATCH)_\w+)(?!\w|:?[-=?+])")
"""A variable of Slurm without a default."""
_INTERPOLATION = re.compile(r"[+~]*[A-Za-z_][\w./@-]*=\S*\$\{[a-z]")
"""An option of Hydra, which fills in names of its configuration by itself."""
_OF_LINKER = ("ORIGIN", "LIB", "PLATFORM")


def unfilled(words: Sequence[str], of_shell: Mapping[str, str] | None = None) -> str:
    """Return the first part of words that only a shell would fill in; empty if there is none.

    Args:
        words: of a command, or the value of a variable.
        of_shell: of a command, which may start a shell: variables that this shell has.
    """
    text = shell_text(words) if of_shell is not None else None
    if text is None:
        return next(filter(None, map(_unfilled_in, words)), "")
    for found in _OF_SLURM.finditer(text):
        if found[1] not in (of_shell or {}) and not re.search(rf"\b{found[1]}=", text):
            return found[0]
    return ""


def _unfilled_in(word: str) -> str:
    """Return the first such part of a word.

    Words with blanks are texts of other languages, such as awk's, in which `$` has another meaning.
    """
    if re.search(r"\s", _EXPANSION.sub("", word)):
        found = _OF_SLURM.search(word)
        return found[0] if found else ""
    for each in _EXPANSION.finditer(word):
        if each[1] not in _OF_LINKER and not _INTERPOLATION.match(word):
            return each[0]
    return ""


def remedy(found: str) -> str:
    """Return what to write in the place of a part that nobody fills in."""
    match = re.search(_NAME, found)
    name = match[0] if match and found[1:2] != "(" and found[:1] == "$" else ""
    if name in PLACEHOLDERS or name in JOB_NUMBERS:
        return f"write {PLACEHOLDERS.get(name, RUN_NUMBER)}"
    if own := OF_SLURM.get(name):
        return f"write bash -c 'exec PROGRAM … ${own}': ranks have this variable, and a shell fills it in"
    if name.startswith(("SLURM_", "SBATCH_")):
        return "write the value: ranks have no variables of Slurm"
    return (
        "write the value, {site.NAME} for a variable in site.yaml, or a path of `data`; or bash -c '…', "
        "which fills in variables of the ranks"
    )
