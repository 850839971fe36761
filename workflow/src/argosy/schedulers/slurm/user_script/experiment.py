"""Makes an experiment and a site of a user's batch script: `argosy init --from job.sbatch`."""

import os
import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from argosy.schedulers.slurm.user_script.environment import (
    OF_RANKS,
    Environment,
    sets_up,
    shell_word,
    variable_of,
)
from argosy.schedulers.slurm.user_script.launch import TORCH_STARTERS, Launch, read_launch
from argosy.schedulers.slurm.user_script.lines import (
    Directive,
    Note,
    Script,
    Statement,
    is_open,
    shortened,
)
from argosy.schedulers.slurm.user_script.sizes import (
    GPU_OPTIONS,
    MEMORY_OPTIONS,
    OF_TASKS,
    OF_THE_JOB,
    SIZES,
    Sizes,
    site_option,
    warning_s,
)
from argosy.shipped.new_project import DEFAULT_IMAGE, site_profile
from argosy.shipped.program import Program
from argosy.site.models import Site
from argosy.site.values import KEY
from argosy.study.image_names import REGISTRY
from argosy.study.models import image_or_source
from argosy_common.errors import ArgosyError
from argosy_common.reading import read_text
from argosy_common.units import duration

_MOST_BYTES = 1 << 18
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
class Converted:
    """A project's files, made of a batch script, and what became of each of its lines."""

    name: str
    experiment: Mapping[str, Any]
    site_files: Mapping[str, str]
    taken: list[Note]
    left: list[Note]


def convert(
    path: Path, project: Path, site: str, image: str | None, secret: re.Pattern[str]
) -> Converted:
    """Read a batch script, which is never run, and return what it becomes.

    Args:
        path: of the script.
        project: the folder to make a project of.
        site: the name of the site to write.
        image: the image that the user names.
        secret: finds names of variables whose values are secret.

    Raises:
        ArgosyError: if the script cannot be read, or no line starts a program.
    """
    if not KEY.fullmatch(site) or site in ("local", "templates"):
        raise ArgosyError(
            f"--site {site}: cannot be the name of a cluster",
            "write letters, digits, '.', '_' or '-'",
        )
    known = {"SLURM_SUBMIT_DIR": str(project), "PWD": str(project)}
    known |= {name: os.environ[name] for name in ("HOME", "USER") if name in os.environ}
    script = Script.read(_text_of(path), known)
    starts = [(each, read_launch(each.words, script.split)) for each in script.statements]
    launches = [(each, launch) for each, launch in starts if launch]
    if not launches:
        raise ArgosyError(
            f"{path}: no line starts a program by srun, mpirun, torchrun, python or the like",
            "name the program yourself: argosy init --command 'python train.py'",
        )
    by_launcher = [each for each in launches if each[1].starters]
    statement, launch = (by_launcher or launches[-1:])[0]
    conversion = _Conversion(script, statement, launch, project, site, image, secret)
    return conversion.result(path.name)


def _text_of(path: Path) -> str:
    try:
        real = path.resolve()
        return read_text(real, real.parent, _MOST_BYTES).replace("\r\n", "\n")
    except OSError as problem:
        raise ArgosyError(f"{path}: {problem.strerror}", "name a batch script") from None
    except ValueError as problem:
        raise ArgosyError(f"{path}: cannot be read: {problem}") from None


@dataclass
class _Conversion:
    script: Script
    statement: Statement
    """It starts the program."""
    launch: Launch
    project: Path
    site: str
    asked_image: str | None
    secret: re.Pattern[str]
    taken: list[Note] = field(default_factory=list)
    left: list[Note] = field(default_factory=list)

    def result(self, source: str) -> Converted:
        """Convert the script; `source` is its name."""
        program = self._read_statements()
        experiment = self._experiment(program)
        files = self._site_files(source)
        notes = [
            sorted(found, key=lambda note: int(note.line.partition("-")[0]))
            for found in (
                self.taken + self.environment.taken,
                self.left + self.environment.left + self.script.left,
            )
        ]
        return Converted(program.name, experiment, files, *notes)

    @cached_property
    def options(self) -> dict[str, Directive]:
        """The last directive of each option; sbatch ignores those before it."""
        found: dict[str, Directive] = {}
        for each in self.script.directives:
            needs_value = each.name in (
                "account",
                "partition",
                "qos",
                "constraint",
                "signal",
                "image",
            )
            if not each.value.isprintable() or (needs_value and not each.value):
                self._leave(each.line, _shown(each), "has no value that can be read: correct it")
                continue
            if before := found.pop(each.name, None):
                self.left.append(
                    Note(before.line, _shown(before), f"line {each.line} sets it again")
                )
            found[each.name] = each
        return found

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes of the job."""
        of_job = {name: each.value for name, each in self.options.items()}
        of_srun = {name: value for name, value in self.launch.sizes.items() if not is_open(value)}
        # A GPU option of srun counts where the job has none.
        if any(name in of_job for name in GPU_OPTIONS):
            of_srun = {name: each for name, each in of_srun.items() if name not in GPU_OPTIONS}
        # A size that is not known before the job is there, and says nothing.
        of_launch = {
            name: "" if is_open(each) else each for name, each in self.launch.sizes.items()
        }
        return Sizes({**of_srun, **of_job}, of_launch, self.launch.starters)

    @cached_property
    def image_of_script(self) -> str:
        """The image of the script's container; empty without one, or if Argosy cannot take it."""
        by_option = self.options.get("image")
        named = self.launch.image or (by_option.value if by_option else "")
        image = named.removeprefix("docker:").removeprefix("//").replace("#", "/")
        if not image or not image.isprintable() or is_open(image) or image.startswith((".", "/")):
            return ""
        try:
            return image_or_source(REGISTRY + image)
        except ValueError:
            return ""

    @cached_property
    def is_native(self) -> bool:
        """Whether ranks run without a container: the script has none, but modules or environments."""
        has_container = self.asked_image or self.launch.image or "image" in self.options
        return not has_container and any(
            sets_up(each, self.script) for each in self.script.statements
        )

    @cached_property
    def environment(self) -> Environment:
        """What the script sets up."""
        return Environment(self.script, self.project, self.secret, self.is_native, self.project)

    def _read_statements(self) -> Program:
        """Read all commands in order; return the program."""
        program = None
        for each in self.script.statements:
            if each is self.statement:
                words = [self.script.restored(word) for word in self.launch.program]
                program = Program(self.project, words, self.environment.base)
                for name, value in self.launch.environment.items():
                    self.environment.set_variable(each, name, value)
                for before in self.launch.before:
                    self.environment.read(Statement(each.line, tuple(before)))
            elif launch := read_launch(each.words, self.script.split):
                said = (
                    "prepares something, or is an experiment of its own"
                    if not launch.starters
                    else "is an experiment of its own"
                )
                text = self.script.shown(*each.words)
                self._leave(each.line, text, f"{said}: add it by argosy run -- COMMAND")
            else:
                self.environment.read(each)
        assert program is not None
        return program

    def _experiment(self, program: Program) -> dict[str, Any]:
        """Return the keys of the experiment, and note where they come from."""
        launcher = self._launcher(program)
        command = self._command(program, launcher)
        variables = {**program.environment, **self.environment.variables}
        checkpoints = self._checkpoints()
        return {
            **self._runtime(),
            "command": shlex.join(command),
            "launcher": launcher,
            "scale": {
                "kind": "strong",
                "nodes": self.sizes.scale,
                "ranks_per_node": self.sizes.ranks_per_node,
                "repeats": 3,
            },
            "resources": self.sizes.resources,
            **({"checkpoints": checkpoints} if checkpoints else {}),
            **({"environment": variables} if variables else {}),
        }

    def _launcher(self, program: Program) -> str:
        starters = self.launch.starters
        if set(starters) & set(TORCH_STARTERS):
            launcher = "torch"
        else:
            launcher = "horovod" if "horovodrun" in starters else program.launcher
        text = self.script.shown(*self.statement.words)
        key = f"command; launcher: {launcher}; {self._words_of_sizes()}"
        self.taken.append(Note(self.statement.line, text, key))
        self._leave_rest_of_launch()
        return launcher

    def _words_of_sizes(self) -> str:
        return f"scale.nodes: {self.sizes.scale}, ranks_per_node: {self.sizes.ranks_per_node}"

    def _leave_rest_of_launch(self) -> None:
        """Note the parts of the launch line that have no place in an experiment."""
        line = self.statement.line
        for name, option, value in self.launch.other:
            self._leave(
                line,
                self.script.shown(f"{name} {option} {value}".strip()),
                _why_not_of_starter(name, option),
            )
        if self.statement.redirected:
            text = " ".join(map(self.script.restored, self.statement.redirected)).replace(
                ">& ", ">&"
            )
            self._leave(line, text, "the output is in the run's folder: argosy logs RUN")
        sizes = self.sizes
        if sizes.gpus_per_node % sizes.ranks_per_node:
            said = "does not give each rank as many: correct ranks_per_node and gpus_per_rank"
            text = f"{sizes.gpus_per_node} GPUs for {sizes.ranks_per_node} ranks of a node"
            self._leave(line, text, said)

    def _command(self, program: Program, launcher: str) -> list[str]:
        """Return the command; through a shell if it has variables."""
        marked = Program(self.project, self.launch.program, program.base).command
        words, paths, has_variables = [], ["bash"], False
        for place, word in enumerate(marked):
            quoted = self._with_nodes(marked, place, launcher) or shell_word(
                word, self.script, lambda part: self._of_rank(part, launcher)
            )
            has_variables = has_variables or "${" in quoted.removeprefix(shlex.quote(word))
            if not quoted:
                said = "ranks do not have this: write the value into the experiment's command"
                self._leave(self.statement.line, self.script.restored(word), said)
                quoted = shlex.quote(self.script.restored(word))
            elif "/workloads/" in word and not is_open(word):
                # Without a container it becomes the project's folder, so no shell may read it as text.
                paths.append(word)
                quoted = f'"${{{len(paths) - 1}}}"'
            words.append(quoted)
        if has_variables:
            return ["bash", "-c", f"exec {' '.join(words)}", *(paths if len(paths) > 1 else [])]
        return [self.script.restored(word) for word in marked]

    def _with_nodes(self, words: list[str], place: int, launcher: str) -> str:
        """Return the word that tells the program its number of nodes, which is another at each size."""
        before = _NODES_OPTION.fullmatch(words[place - 1]) if place else None
        here = _NODES_OPTION.fullmatch(words[place])
        is_of_size = launcher == "torch" and self.sizes.nodes > 1
        if is_of_size and here and here[2] == str(self.sizes.nodes):
            return f'{here[1]}="${{GROUP_WORLD_SIZE}}"'
        if is_of_size and before and not before[2] and words[place] == str(self.sizes.nodes):
            return '"${GROUP_WORLD_SIZE}"'
        return ""

    def _of_rank(self, expansion: str, launcher: str) -> str:
        """Return what stands for a variable of the script in a rank; empty without such a one."""
        name = variable_of(expansion)
        constants = {
            "SLURM_CPUS_PER_TASK": self.sizes.cpus_per_rank,
            "SLURM_GPUS_ON_NODE": self.sizes.gpus_per_node,
            "SLURM_GPUS_PER_NODE": self.sizes.gpus_per_node,
        }
        if name in constants:
            return str(constants[name])
        name = _RENAMED.get(name, name)
        if _OF_TORCH.fullmatch(name):
            return f"${{{name}}}" if launcher == "torch" else ""
        is_known = name in _RENAMED.values() or (self.is_native and not OF_RANKS.fullmatch(name))
        return f"${{{name}}}" if name and is_known else ""

    def _runtime(self) -> dict[str, Any]:
        if self.is_native:
            return {"runtime": "native"}
        image = self.asked_image or self.image_of_script or DEFAULT_IMAGE
        by_option = self.options.get("image")
        named = self.launch.image or (by_option.value if by_option else "")
        if by_option and self.launch.image:
            self._leave(by_option.line, _shown(by_option), "the launch line names an image as well")
        if named:
            line = by_option.line if by_option and not self.launch.image else self.statement.line
            text = self.script.restored(named)
            if image == self.image_of_script:
                self.taken.append(Note(line, text, f"image: {image}"))
            else:
                said = f"image: is {image}; for this one see docs/images.md, or name another by --image"
                self._leave(line, text, said)
        return {"image": image}

    def _checkpoints(self) -> dict[str, Any]:
        signal = self.options.get("signal")
        if not signal:
            return {}
        warning = warning_s(signal.value)
        if warning is None:
            said = "Argosy warns by SIGUSR1: let the program listen to it, and add `checkpoints`"
            self._leave(signal.line, _shown(signal), said)
            return {}
        self._take(signal, f"checkpoints.warning: {duration(warning)}")
        requeues = {"requeues": 0} if "no-requeue" in self.options else {}
        return {"warning": duration(warning), **requeues}

    def _site_files(self, source: str) -> dict[str, str]:
        """Return the files of the site's folder by their names."""
        options, of_hardware, of_queue, account = self._read_options()
        sizes = self.sizes
        kind = "gpu" if sizes.gpus_per_node else "cpu"
        queue = re.sub(r"[^A-Za-z0-9._-]+", "-", of_queue.get("partition", "")).strip("-._") or kind
        hardware: dict[str, Any] = {"architecture": _architecture()}
        if sizes.gpus_per_node:
            hardware["gpus"] = sizes.gpus_per_node
        if of_hardware:
            hardware["options"] = of_hardware
        interface = self.environment.interface
        content = {
            "scheduler": "slurm",
            **({"interface": interface} if interface else {}),
            **({"account": account} if account else {}),
            **({"options": options} if options else {}),
            "hardware": {kind: hardware},
            "queues": {queue: {"hardware": [kind], **({"options": of_queue} if of_queue else {})}},
        }
        Site.model_validate(content)
        files = {
            "config.yaml": site_profile(self.site),
            "site.yaml": f"{self._head(source)}{yaml.safe_dump(content, sort_keys=False, width=1000)}",
        }
        if self.environment.block:
            files["job.sbatch.j2"] = _TEMPLATE.format("\n".join(self.environment.block))
        return {f"slurm/{self.site}/{name}": text for name, text in files.items()}

    def _head(self, source: str) -> str:
        lines = [
            f"Written by `argosy init --from`, of {source!r}. docs/porting.md explains the keys."
        ]
        lines.append("The architecture is that of the machine where it was written.")
        if not self.environment.interface:
            lines.append(
                "Jobs need the network interface that connects the nodes. Write it here: interface: NAME"
            )
        if self.sizes.memory_options.get("mem", "") is None:
            lines.append("The script requests no memory, so `mem: null` leaves it to Slurm.")
        return "".join(f"# {line}\n" for line in lines)

    def _read_options(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]:
        """Return the options of the site, its hardware and its queue, and the account; note all others."""
        options: dict[str, Any] = dict(self.sizes.memory_options)
        of_hardware: dict[str, Any] = dict(self.sizes.gpu_option)
        of_queue: dict[str, Any] = {}
        account = ""
        where = f"slurm/{self.site}"
        for name, each in self.options.items():
            if key := self._key_of_size(name):
                self._take(each, key)
            elif name == "account":
                account = each.value
                self._take(each, f"{where}: account")
            elif name in ("partition", "qos", "constraint") or self._is_other_gres(name):
                level, key = (
                    (of_queue, "queues")
                    if name in ("partition", "qos")
                    else (of_hardware, "hardware")
                )
                _, level[name] = site_option(name, each.value)
                self._take(each, f"{where}: {key}.*.options.{name}")
            elif name == "no-requeue":
                options["requeue"] = None
                self._take(each, f"{where}: options.requeue: null")
            elif name == "requeue":
                self._take(each, "each of Argosy's jobs has it")
            elif name not in ("signal", "image"):
                self._read_other_option(each, options)
        return options, of_hardware, of_queue, account

    def _is_other_gres(self, name: str) -> bool:
        return name == "gres" and not self.sizes.gpu_option

    def _read_other_option(self, each: Directive, options: dict[str, Any]) -> None:
        reason = OF_THE_JOB.get(each.name)
        if OF_TASKS.fullmatch(each.name):
            reason = "Argosy starts one task on each node, which starts the ranks"
        if not reason:
            try:
                name, value = site_option(each.name, each.value)
                options[name] = value
                self._take(each, f"slurm/{self.site}: options.{name}")
                return
            except ValueError as problem:
                reason = str(problem)
        self._leave(each.line, _shown(each), reason)

    def _key_of_size(self, name: str) -> str:
        """Return the key that a size of the job became; empty for other options, and without effect."""
        resources = self.sizes.resources
        if name in SIZES:
            is_nodes = name == "nodes"
            value = self.sizes.scale if is_nodes else self.sizes.ranks_per_node
            return f"scale.{'nodes' if is_nodes else 'ranks_per_node'}: {value}"
        keys = {"cpus-per-task": "cpus_per_rank", "cpus-per-gpu": "cpus_per_rank", "time": "time"}
        keys |= dict.fromkeys(MEMORY_OPTIONS, "memory_per_rank")
        if self.sizes.gpu_option:
            keys |= dict.fromkeys(GPU_OPTIONS, "gpus_per_rank")
        key = keys.get(name, "")
        if key in resources:
            return f"resources.{key}: {resources[key]}"
        is_whole = name == "mem" and self.sizes.memory_options.get("mem")
        return f"slurm/{self.site}: options.mem" if is_whole else ""

    def _take(self, each: Directive, key: str) -> None:
        self.taken.append(Note(each.line, _shown(each), key))

    def _leave(self, line: str, text: str, said: str) -> None:
        self.left.append(Note(line, shortened(text), said))


_TEMPLATE = """\
{{% extends "job.sbatch.j2" %}}

{{% block environment %}}
{}
{{% endblock %}}
"""


def _architecture() -> str:
    return "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def _shown(each: Directive) -> str:
    return f"--{each.name}" + (f"={each.value}" if each.value else "")


def _why_not_of_starter(name: str, option: str) -> str:
    option = option.lstrip("-").replace("_", "-")
    if name in ("singularity", "apptainer", "shifter", "docker", "podman-hpc", "udocker"):
        return "Argosy starts the container: it has the project as /workloads, and nothing else of the host"
    if option.startswith("container-"):
        return "Argosy starts the container: it has the project as /workloads, and nothing else of the host"
    if name in TORCH_STARTERS:
        return (
            f"Argosy takes the place of {name}: set what it sets in the program, or by environment"
        )
    return f"Argosy takes the place of {name}: it starts one task on each node, and that starts the ranks"
