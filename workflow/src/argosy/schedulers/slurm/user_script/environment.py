"""Reads the setup of a batch script's program: variables, modules, environments and its folder."""

import os
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from argosy.schedulers.slurm.user_script.launch import REASONS, UNKNOWN
from argosy.schedulers.slurm.user_script.lines import (
    ASSIGNMENT,
    EXPORTS,
    IN_BLOCK,
    OF_RANKS,
    Script,
    Statement,
    is_open,
    variable_of,
)
from argosy.shipped.program import is_there
from argosy.study.shell_words import JOB_NUMBERS, RUN_NUMBER
from argosy.study.values import variable_name

_INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")
_INTERFACE = re.compile(r"[a-z][a-z0-9._-]*[0-9]")
_HOOK = re.compile(r"\$\((?:\S*/)?(?:conda|mamba|micromamba) [\w \"'./-]*\)")
_NOT_IN_TEMPLATES = re.compile(r"\{(?:[{%#]|nodes\}|ranks\}|ranks_per_node\})")
_BINDS = ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH")
_BLOCK = "block `environment` of the site"
_FILLED_IN = "filled in where it is used"
_PRINTED = "the output of a command is unknown before the job"


@dataclass
class Environment:
    """The environment of the ranks.

    Args:
        script: the batch script.
        folder: the project's folder.
        secret: matches names of variables whose values are secret.
        is_native: whether ranks run with the script's modules and environments.
    """

    script: Script
    folder: Path
    secret: re.Pattern[str]
    is_native: bool
    base: Path = field(init=False)
    """Folder to which paths in commands are relative."""
    variables: dict[str, str] = field(default_factory=dict)
    block: list[str] = field(default_factory=list)
    """Lines of the block `environment` of the site's job.sbatch.j2."""
    interface: str = ""
    binds: list[tuple[str, str, str]] = field(default_factory=list)
    """Variables with mounts of Singularity and Apptainer: line, name and value."""

    def __post_init__(self) -> None:
        self.base = self.folder

    def read(self, statement: Statement) -> None:
        """Read a simple command that starts no program."""
        text = " ".join(statement.words)
        first, *others = statement.words
        if first in EXPORTS or all(map(ASSIGNMENT.fullmatch, statement.words)):
            self._read_variables(statement, text)
        elif sets_up(statement, self.script) or PurePosixPath(first).name == "ulimit":
            self.script.note(statement.line, text, lambda: self._in_block(statement))
        elif PurePosixPath(first).name == "cd" and len(others) < 2:
            self.script.note(statement.line, text, lambda: self._folder("".join(others) or "~"))
        else:
            self.script.leave(statement.line, text, REASONS.get(PurePosixPath(first).name, UNKNOWN))

    def set_variable(self, line: str, name: str, value: str) -> None:
        """Set a variable of the ranks, or note why not."""
        if name in _BINDS and not self.is_native:
            self.binds.append((line, name, value))
            return
        text = f"{name}={'…' if self.secret.search(name) else value}"
        self.script.note(line, text, lambda: self._variable(name, value))

    def path(self, word: str) -> Path:
        """Return the path on the host for a word of a command."""
        home = self.script.variables.get("HOME", "")
        word = re.sub("^~(?=/|$)", lambda _: home, word) if home else word
        return Path(os.path.normpath(self.base / word))

    def _variable(self, name: str, value: str) -> str:
        """Set a variable of the ranks, and return its key. Raises ValueError with the reason if not."""
        first = value.partition(",")[0]
        if name in _INTERFACES and _INTERFACE.fullmatch(first):
            self.interface = self.interface or first
        if name in _INTERFACES and OF_RANKS.fullmatch(name) and self.interface == first:
            return "the site's interface, from which Argosy sets it"
        if OF_RANKS.fullmatch(name):
            raise ValueError("Argosy sets it for each rank")
        if self.secret.search(name):
            raise ValueError(
                "config.yaml must not contain secrets: let the program read it from a file"
            )
        if not self.is_native:
            value = self.script.filled(value, _number_of_run)
        if value.isprintable() and not is_open(value):
            self.variables[variable_name(name)] = self._in_workloads(value)
            return f"environment.{name}"
        if name in self.script.used:
            return _FILLED_IN
        word = self.script.shell_word(value, _of_batch_script) if self.is_native else ""
        if word and is_open(value) and not _NOT_IN_TEMPLATES.search(word):
            self.block.append(f"export {name}={word}")
            return _BLOCK
        if not is_open(value):
            raise ValueError("contains line breaks: let the program set it")
        if name == "OMP_NUM_THREADS":
            raise ValueError("Argosy sets it to resources.cpus_per_rank")
        said = "has no value before the job: write the value into environment of the experiment"
        raise ValueError(said)

    def _read_variables(self, statement: Statement, text: str) -> None:
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
                key = partial(self._own_variable, name, value)
                self.script.note(statement.line, f"{name}={value}", key)
        if not pairs:
            self.script.leave(statement.line, text, "sets no variable to a value")

    def _own_variable(self, name: str, value: str) -> str:
        """Return the note on a variable of the script that is not exported. Raises ValueError if unused."""
        if re.search(r"\$\([^(]|`", self.script.restored(value)):
            raise ValueError(f"{_PRINTED}: if runs need it, write the value")
        if name not in self.script.used:
            raise ValueError("no converted line uses it")
        return _FILLED_IN

    def _in_block(self, statement: Statement) -> str:
        """Add a command to the block `environment`, with each word quoted."""
        if sets_up(statement, self.script) and not self.is_native:
            said = "containers have the packages of their image: add missing packages to a Containerfile"
            raise ValueError(said)
        is_file = statement.words[0] in ("source", ".")
        found = [self._absolute(word, is_file) for word in statement.words]
        words = [self.script.shell_word(word, _of_batch_script) for word in found]
        if not all(words) or _NOT_IN_TEMPLATES.search(" ".join(words)):
            raise ValueError(f"{_PRINTED}: {IN_BLOCK}")
        self.block.append(" ".join(words))
        return _BLOCK

    def _absolute(self, word: str, is_file: bool) -> str:
        path = self.path(word)
        is_path = is_file and not is_open(word) and is_there(path) and path.is_file()
        is_of_home = word.startswith("~/") and "HOME" in self.script.variables
        return str(path) if is_path or is_of_home else word

    def _folder(self, word: str) -> str:
        """Change `base` to another folder of the project."""
        path = self.path(word)
        is_folder = not is_open(word) and is_there(path) and path.is_dir()
        if not is_folder or not path.resolve().is_relative_to(self.folder.resolve()):
            said = "run argosy init in that folder if the program is there"
            raise ValueError(f"it is not below {self.folder}: {said}")
        self.base = path
        return "paths in the command"

    def _in_workloads(self, value: str) -> str:
        """Replace the project's folder in a value by its path in containers."""
        return re.sub(rf"{re.escape(str(self.folder))}(?=$|[/:;,])", "/workloads", value)


def sets_up(statement: Statement, script: Script) -> bool:
    """Return whether a command loads modules, or activates a conda or Python environment."""
    first, *others = statement.words
    if first in ("module", "ml", "source", "."):
        return bool(others)
    if first in ("conda", "mamba", "micromamba"):
        return others[:1] in (["activate"], ["deactivate"])
    is_hook = len(others) == 1 and _HOOK.fullmatch(script.restored(others[0]))
    return first == "eval" and bool(is_hook)


def _number_of_run(expansion: str) -> str:
    """Return the placeholder for a variable of the job id; empty for other variables."""
    return RUN_NUMBER if variable_of(expansion) in JOB_NUMBERS else ""


def _of_batch_script(expansion: str) -> str:
    """Return an expansion valid in Argosy's batch script: a variable or conda's hook; else empty."""
    name = variable_of(expansion)
    # Argosy's job has one task on each node, so Slurm's other variables have other values there.
    if name and (name in ("SLURM_TMPDIR", "SLURM_JOB_ID") or not OF_RANKS.fullmatch(name)):
        return f"${{{name}}}"
    return expansion if _HOOK.fullmatch(expansion) else ""
