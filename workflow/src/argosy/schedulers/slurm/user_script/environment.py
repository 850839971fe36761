"""What a batch script sets up before its program: variables, modules, environments and its folder."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from argosy.schedulers.slurm.user_script.launch import REASONS, UNKNOWN
from argosy.schedulers.slurm.user_script.lines import (
    ASSIGNMENT,
    EXPORTS,
    IN_BLOCK,
    Script,
    Statement,
    is_open,
    variable_of,
)
from argosy.shipped.program import is_there
from argosy.study.models import variable_name

OF_RANKS = re.compile(
    r"MASTER_ADDR|MASTER_PORT|(?:LOCAL_|NODE_|GROUP_)?RANK|(?:LOCAL_)?WORLD_SIZE|GLOO_SOCKET_IFNAME|"
    r"TP_SOCKET_IFNAME|HOROVOD_GLOO_IFACE|(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES|S(?:LURM|RUN|BATCH)_\w+"
)
"""Variables that Argosy sets for each rank, or that ranks have not."""
_INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")
_INTERFACE = re.compile(r"[a-z][a-z0-9._-]*[0-9]")
_HOOK = re.compile(r"\$\((?:\S*/)?(?:conda|mamba|micromamba) [\w \"'./-]*\)")
_NOT_IN_TEMPLATES = re.compile(r"\{(?:[{%#]|nodes\}|ranks\}|ranks_per_node\})")
_BINDS = ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH")
_BLOCK = "block `environment` of the site"
_FILLED_IN = "filled in where it is used"
_PRINTED = "what a command prints is not known before the job"


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
    base: Path = field(init=False)
    """The folder where paths in commands begin."""
    variables: dict[str, str] = field(default_factory=dict)
    block: list[str] = field(default_factory=list)
    """Lines of the block `environment` of the site's job.sbatch.j2."""
    interface: str = ""
    binds: list[tuple[str, str, str]] = field(default_factory=list)
    """Variables that tell Singularity and Apptainer what to show: line, name and value."""

    def __post_init__(self) -> None:
        self.base = self.folder

    def read(self, statement: Statement) -> None:
        """Read a simple command that starts no program."""
        first, *others = statement.words
        name = PurePosixPath(first).name
        if name in EXPORTS or all(map(ASSIGNMENT.fullmatch, statement.words)):
            self._read_variables(statement)
        elif sets_up(statement, self.script) and not self.is_native:
            said = "containers have the packages of their image: add what is missing to a Containerfile"
            self._leave(statement, said)
        elif sets_up(statement, self.script) or name == "ulimit":
            self._add_line(statement)
        elif name == "cd" and len(others) < 2:
            self._read_folder(statement, "".join(others) or "~")
        else:
            self._leave(statement, REASONS.get(name, UNKNOWN))

    def set_variable(self, line: str, name: str, value: str) -> None:
        """Set a variable of the ranks, or say why not."""
        if name in _BINDS and not self.is_native:
            self.binds.append((line, name, value))
            return
        first = value.partition(",")[0]
        if name in _INTERFACES and _INTERFACE.fullmatch(first):
            self.interface = self.interface or first
        is_free = not OF_RANKS.fullmatch(name) and not self.secret.search(name)
        export = self._export(name, value) if is_free and is_open(value) else ""
        reason, key = self._why_not(name, value), ""
        if not reason:
            self.variables[name] = self._in_workloads(value)
            key = f"environment.{name}"
        elif name in _INTERFACES and self.interface == first:
            key = "the site's interface, of which Argosy sets it"
        elif is_free and name in self.script.used:
            key = _FILLED_IN
        elif export:
            self.block.append(export)
            key = _BLOCK
        text = f"{name}={'…' if self.secret.search(name) else value}"
        (self.script.take if key else self.script.leave)(line, text, key or reason)

    def path(self, word: str) -> Path:
        """Return the path of the host that a word of a command names."""
        home = self.script.variables.get("HOME", "")
        word = re.sub("^~(?=/|$)", lambda _: home, word) if home else word
        return Path(os.path.normpath(self.base / word))

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
        """Return the line that sets a variable in the batch script; empty if that is not possible."""
        word = self.script.shell_word(value, _of_batch_script) if self.is_native else ""
        return f"export {name}={word}" if word and not _NOT_IN_TEMPLATES.search(word) else ""

    def _read_variables(self, statement: Statement) -> None:
        is_export = statement.words[0] in EXPORTS
        pairs = []
        for word in statement.words[is_export:]:
            if pair := ASSIGNMENT.fullmatch(word):
                pairs.append((pair[1], pair[2]))
            elif is_export and word in self.script.variables:
                pairs.append((word, self.script.variables[word]))
        for name, value in pairs:
            if is_export:
                self.set_variable(statement.line, name, value)
            else:
                self._read_variable(statement.line, name, value)
        if not pairs:
            self._leave(statement, "sets no variable to a value")

    def _read_variable(self, line: str, name: str, value: str) -> None:
        """Note what became of a variable of the script alone."""
        text = f"{name}={value}"
        if re.search(r"\$\([^(]|`", self.script.restored(value)):
            self.script.leave(line, text, f"{_PRINTED}: if runs need it, write the value")
        elif name not in self.script.used:
            self.script.leave(line, text, "nothing that was taken uses it")
        else:
            self.script.take(line, text, _FILLED_IN)

    def _add_line(self, statement: Statement) -> None:
        """Add a command to the block `environment`, each of its words quoted."""
        is_file = statement.words[0] in ("source", ".")
        words = [
            self.script.shell_word(self._absolute(word, is_file), _of_batch_script)
            for word in statement.words
        ]
        line = " ".join(words)
        if all(words) and not _NOT_IN_TEMPLATES.search(line):
            self.block.append(line)
            self.script.take(statement.line, " ".join(statement.words), _BLOCK)
        else:
            self._leave(statement, f"{_PRINTED}: {IN_BLOCK}")

    def _absolute(self, word: str, is_file: bool) -> str:
        path = self.path(word)
        is_path = is_file and not is_open(word) and is_there(path) and path.is_file()
        is_of_home = word.startswith("~/") and "HOME" in self.script.variables
        return str(path) if is_path or is_of_home else word

    def _read_folder(self, statement: Statement, word: str) -> None:
        path = self.path(word)
        is_folder = not is_open(word) and is_there(path) and path.is_dir()
        if is_folder and path.resolve().is_relative_to(self.folder.resolve()):
            self.base = path
            self.script.take(statement.line, " ".join(statement.words), "paths in the command")
        else:
            said = "run argosy init in that folder if the program is there"
            self._leave(statement, f"it is not below {self.folder}: {said}")

    def _in_workloads(self, value: str) -> str:
        """Return a value with the project's folder as ranks have it."""
        return re.sub(rf"{re.escape(str(self.folder))}(?=$|[/:;,])", "/workloads", value)

    def _leave(self, statement: Statement, said: str) -> None:
        self.script.leave(statement.line, " ".join(statement.words), said)


def sets_up(statement: Statement, script: Script) -> bool:
    """Return whether a command loads modules, or activates an environment of conda or Python."""
    first, *others = statement.words
    if first in ("module", "ml", "source", "."):
        return bool(others)
    if first in ("conda", "mamba", "micromamba"):
        return others[:1] in (["activate"], ["deactivate"])
    is_hook = len(others) == 1 and _HOOK.fullmatch(script.restored(others[0]))
    return first == "eval" and bool(is_hook)


def _of_batch_script(expansion: str) -> str:
    """Return an expansion that means the same in Argosy's batch script: a variable, or where conda is."""
    name = variable_of(expansion)
    # Argosy's job has one task on each node, so other variables of Slurm have other values there.
    if name and (name in ("SLURM_TMPDIR", "SLURM_JOB_ID") or not OF_RANKS.fullmatch(name)):
        return f"${{{name}}}"
    return expansion if _HOOK.fullmatch(expansion) else ""
