"""Shell variables and substitutions in commands that no shell runs: the program would get them as text."""

import re
from collections.abc import Mapping, Sequence

from argosy.study.command_launchers import shell_text

PLACEHOLDERS = {
    **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "{nodes}"),
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), "{ranks}"),
    "SLURM_NTASKS_PER_NODE": "{ranks_per_node}",
}
"""Slurm's variables, with the placeholders of the same value."""
OF_SLURM = {"SLURM_PROCID": "RANK", "SLURM_LOCALID": "LOCAL_RANK", "SLURM_NODEID": "GROUP_RANK"}
"""Slurm's variables, with the variables of ranks that have the same values; ranks do not get Slurm's."""
JOB_NUMBERS = ("SLURM_JOB_ID", "SLURM_JOBID")
RUN_NUMBER = "{nodes}x{ranks_per_node}-{repeat}"
"""Replacement for the job id: unique for each run of an experiment."""
_NAME = r"[A-Za-z_]\w*"
_OPERATOR = r"(?::[-=?+0-9]|[-?+=#%/^,])[^{}]*"
_EXPANSION = re.compile(
    rf"(?<![\\$])\$(?:({_NAME})|[0-9@*#]|\{{(?:{_NAME}|[0-9@*]+)(?:{_OPERATOR})?\}}|\(\(?[^()]+\)?\))|`[^`]+`"
)
"""A variable, a positional parameter or a command substitution."""
_OF_SLURM = re.compile(r"(?<![\\$])\$\{?(S(?:LURM|BATCH)_\w+)(?!\w|:?[-=?+])")
"""A variable of Slurm without a default value."""
_INTERPOLATION = re.compile(r"[+~]*[A-Za-z_][\w./@-]*=\S*\$\{[a-z]")
"""An option of Hydra, which interpolates `${name}` itself."""
_OF_LINKER = ("ORIGIN", "LIB", "PLATFORM")


def unfilled(words: Sequence[str], of_shell: Mapping[str, str] | None = None) -> str:
    """Return the first part that only a shell would expand; "" if there is none.

    Args:
        words: a command, or the value of a variable.
        of_shell: the variables of a shell that a command may start; None for other words.
    """
    text = shell_text(words) if of_shell is not None else None
    if text is None:
        return next(filter(None, map(_unfilled_in, words)), "")
    for found in _OF_SLURM.finditer(text):
        if found[1] not in (of_shell or {}) and not re.search(rf"\b{found[1]}=", text):
            return found[0]
    return ""


def _unfilled_in(word: str) -> str:
    """Return the first such part of a word; "" if there is none.

    Words with blanks may be code of another language such as awk, where `$` has another meaning.
    """
    if re.search(r"\s", _EXPANSION.sub("", word)):
        found = _OF_SLURM.search(word)
        return found[0] if found else ""
    for each in _EXPANSION.finditer(word):
        if each[1] not in _OF_LINKER and not _INTERPOLATION.match(word):
            return each[0]
    return ""


def remedy(found: str) -> str:
    """Return a hint: the replacement for a part that nothing expands."""
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
