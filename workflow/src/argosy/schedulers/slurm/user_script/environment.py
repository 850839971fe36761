"""What a batch script sets up before its program: variables, modules, environments and its folder."""

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from argosy.schedulers.slurm.user_script.lines import (
    ASSIGNMENT,
    EXPORTS,
    Note,
    Script,
    Statement,
    is_open,
)
from argosy.shipped.program import is_there
from argosy.study.models import variable_name

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
OF_RANKS = re.compile(
    r"MASTER_ADDR|MASTER_PORT|(?:LOCAL_|NODE_|GROUP_)?RANK|(?:LOCAL_)?WORLD_SIZE|GLOO_SOCKET_IFNAME|"
    r"TP_SOCKET_IFNAME|HOROVOD_GLOO_IFACE|(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES|S(?:LURM|RUN|BATCH)_\w+"
)
"""Variables that Argosy sets for each rank, or that ranks have not."""
_INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")
_INTERFACE = re.compile(r"[a-z][a-z0-9._-]*[0-9]")
_HOOK = re.compile(r"\$\((?:\S*/)?(?:conda|mamba|micromamba) [\w \"'./-]*\)")
_JINJA = re.compile(r"\{[{%#]")
_REASONS = {
    "prints only: Argosy records the nodes, packages, times and GPUs of each run": (
        "echo printf date hostname env printenv nvidia-smi rocm-smi lscpu scontrol squeue sacct seff which "
        "pwd ls cat df free nproc uname head tail"
    ),
    "prepares files: do it before the runs, or in the block `stage` of the site's job.sbatch.j2": (
        "mkdir cp mv rm ln rsync tar unzip touch chmod wget curl git sbcast"
    ),
    "installs packages: do it before the runs, or in a Containerfile": "pip pip3 uv",
    "is of the script alone: Argosy's own script ends, and cleans up, by itself": (
        "set trap wait exit sleep kill true : shift"
    ),
}
_REASON_OF = {name: reason for reason, names in _REASONS.items() for name in names.split()}
_UNKNOWN = (
    "the script runs it, not the ranks: if runs need it, write it into the block `environment` of the "
    "site's job.sbatch.j2"
)


@dataclass
class Environment:
    """The environment of the ranks.

    Args:
        script: the script.
        folder: of the project.
        secret: finds names of variables whose values are secret.
        is_native: whether ranks run with the modules and environments of the script.
    """

    script: Script
    folder: Path
    secret: re.Pattern[str]
    is_native: bool
    base: Path = Path()
    """The folder where paths in commands begin."""
    variables: dict[str, str] = field(default_factory=dict)
    block: list[str] = field(default_factory=list)
    """Lines of the block `environment` of the site's job.sbatch.j2."""
    interface: str = ""
    taken: list[Note] = field(default_factory=list)
    left: list[Note] = field(default_factory=list)

    def read(self, statement: Statement) -> None:
        """Read a simple command that starts no program."""
        first, *others = statement.words
        name = PurePosixPath(first).name
        assignments = [ASSIGNMENT.fullmatch(each) for each in statement.words]
        if all(assignments) or name in EXPORTS:
            self._read_variables(statement)
        elif sets_up(statement, self.script):
            self._read_line(statement)
        elif name == "ulimit":
            self._add_line(statement)
        elif name == "cd" and len(others) < 2:
            self._read_folder(statement, others[0] if others else "")
        else:
            self._leave(statement, _REASON_OF.get(name, _UNKNOWN))

    def set_variable(self, statement: Statement, name: str, value: str) -> None:
        """Set a variable of the ranks, or say why not."""
        text = self.script.shown(f"{name}={value}")
        first = value.partition(",")[0]
        if name in _INTERFACES and _INTERFACE.fullmatch(first):
            self.interface = self.interface or first
        reason = self._why_not(name, value)
        if not reason:
            self.variables[name] = self._in_workloads(value)
            self.taken.append(Note(statement.line, text, f"environment.{name}"))
        elif name in _INTERFACES and self.interface == first:
            self.taken.append(
                Note(statement.line, text, "the site's interface, of which Argosy sets it")
            )
        elif is_open(value) and name in self.script.used and not OF_RANKS.fullmatch(name):
            self.taken.append(Note(statement.line, text, "filled in where it is used"))
        elif self.is_native and is_open(value) and (line := self._export(name, value)):
            self.block.append(line)
            self.taken.append(Note(statement.line, text, "block `environment` of the site"))
        else:
            self.left.append(
                Note(statement.line, f"{name}=…" if self.secret.search(name) else text, reason)
            )

    def _why_not(self, name: str, value: str) -> str:
        """Return why a variable is none of the experiment's; empty if it may be."""
        if OF_RANKS.fullmatch(name):
            return "Argosy sets it for each rank"
        if self.secret.search(name):
            return "a secret has no place in config.yaml: let the program read it from a file"
        if is_open(value) and name == "OMP_NUM_THREADS":
            return "Argosy sets it to resources.cpus_per_rank"
        if is_open(value):
            return "has no value before the job: write the value into environment of the experiment"
        try:
            variable_name(name)
        except ValueError as problem:
            return str(problem)
        return "" if value.isprintable() else "holds line breaks: let the program set it"

    def _export(self, name: str, value: str) -> str:
        word = shell_word(value, self.script, _of_batch_script)
        is_safe = not OF_RANKS.fullmatch(name) and not self.secret.search(name)
        return f"export {name}={word}" if word and is_safe and not _JINJA.search(word) else ""

    def _read_variables(self, statement: Statement) -> None:
        is_export = statement.words[0] in EXPORTS
        before = len(self.taken) + len(self.left)
        for word in statement.words[is_export:]:
            if pair := ASSIGNMENT.fullmatch(word):
                name, value = pair.groups()
            elif is_export and word in self.script.variables:
                name, value = word, self.script.variables[word]
            else:
                continue
            text = self.script.shown(f"{name}={value}")
            if is_export:
                self.set_variable(statement, name, value)
            elif re.search(r"\$\([^(]|`", self.script.restored(value)):
                said = "what a command prints is not known before the job: if runs need it, write the value"
                self.left.append(Note(statement.line, text, said))
            elif name not in self.script.used:
                self.left.append(Note(statement.line, text, "nothing that was taken uses it"))
            else:
                self.taken.append(Note(statement.line, text, "filled in where it is used"))
        if before == len(self.taken) + len(self.left):
            self._leave(statement, "sets no variable to a value")

    def _read_line(self, statement: Statement) -> None:
        if self.is_native:
            self._add_line(statement)
            return
        said = "containers have the packages of their image: add what is missing to a Containerfile"
        self._leave(statement, said)

    def _add_line(self, statement: Statement) -> None:
        """Add a command to the block `environment`, each of its words quoted."""
        is_file = statement.words[0] in ("source", ".")
        words = [self._word(word, is_file) for word in statement.words]
        line = " ".join(word for word in words if word)
        if not all(words) or _JINJA.search(line):
            said = "what a command prints is not known before the job: write it by hand into the block "
            self._leave(statement, f"{said}`environment` of the site's job.sbatch.j2")
            return
        self.block.append(line)
        self.taken.append(
            Note(statement.line, self._text(statement), "block `environment` of the site")
        )

    def _word(self, word: str, is_file: bool) -> str:
        """Return a word of a command as a shell has to read it; empty if that is not possible."""
        home = self.script.variables.get("HOME", "")
        if word.startswith("~/") and home:
            word = home + word[1:]
        path = self.base / word
        is_path = is_file and not is_open(word) and is_there(path) and path.is_file()
        word = os.path.normpath(path) if is_path else word
        return shell_word(word, self.script, _of_batch_script)

    def _read_folder(self, statement: Statement, word: str) -> None:
        home = self.script.variables.get("HOME", "")
        folder = home + word[1:] if word[:1] == "~" else word or home
        path = Path(os.path.normpath(self.base / folder))
        if (
            not is_open(word)
            and is_there(path)
            and path.is_dir()
            and path.resolve().is_relative_to(self.folder.resolve())
        ):
            self.base = path
            self.taken.append(Note(statement.line, self._text(statement), "paths in the command"))
            return
        said = (
            f"it is not below {self.folder}: run argosy init in that folder if the program is there"
        )
        self._leave(statement, said)

    def _in_workloads(self, value: str) -> str:
        """Return a value with the project's folder as ranks have it."""
        return re.sub(rf"{re.escape(str(self.folder))}(?=$|[/:;,])", "/workloads", value)

    def _leave(self, statement: Statement, said: str) -> None:
        self.left.append(Note(statement.line, self._text(statement), said))

    def _text(self, statement: Statement) -> str:
        return self.script.shown(*statement.words)


def sets_up(statement: Statement, script: Script) -> bool:
    """Return whether a command loads modules, or activates an environment of conda or Python."""
    first, *others = statement.words
    if first in ("module", "ml", "source", "."):
        return bool(others)
    if first in ("conda", "mamba", "micromamba"):
        return others[:1] in (["activate"], ["deactivate"])
    return (
        first == "eval" and len(others) == 1 and bool(_HOOK.fullmatch(script.restored(others[0])))
    )


def shell_word(word: str, script: Script, expansion: Callable[[str], str]) -> str:
    """Return a word as a shell has to read it; empty if a part of it cannot stay.

    Args:
        word: with marks in the place of what is not known.
        script: that has the word.
        expansion: returns what stays of such a part; empty if it cannot stay.
    """
    if not is_open(word):
        return shlex.quote(word)
    found = []
    for part in script.parts(word):
        kept = expansion(script.restored(part)) if is_open(part) else _quoted(part)
        if not kept:
            return ""
        found.append(kept)
    return f'"{"".join(found)}"'


def variable_of(expansion: str) -> str:
    """Return the name of the variable that an expansion is the value of, and nothing else."""
    found = _VARIABLE.fullmatch(expansion)
    return (found[1] or found[2]) if found else ""


def _quoted(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)


def _of_batch_script(expansion: str) -> str:
    """Return an expansion that means the same in Argosy's batch script: a variable, or where conda is."""
    name = variable_of(expansion)
    # Argosy's job has one task on each node, so other variables of Slurm have other values there.
    if name and (name in ("SLURM_TMPDIR", "SLURM_JOB_ID") or not OF_RANKS.fullmatch(name)):
        return f"${{{name}}}"
    return expansion if _HOOK.fullmatch(expansion) else ""
