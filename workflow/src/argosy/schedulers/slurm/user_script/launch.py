"""Takes a launch line apart: launchers and containers, their options, and the program that they start."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from argosy.schedulers.slurm.user_script.lines import ASSIGNMENT, IN_BLOCK, is_open
from argosy.schedulers.slurm.user_script.options import FLAGS, options_of
from argosy.study.command_launchers import PYTHON, SHELLS

_REPLACED = {
    "srun": "label unbuffered kill-on-bad-exit mpi export exact overlap wait",
    "mpi": "hostfile machinefile host hosts H f bind-to map-by rank-by report-bindings mca gmca "
    "allow-run-as-root oversubscribe prefix launcher iface tag-output mpi gloo",
    "torch": "rdzv-backend rdzv-endpoint rdzv-id rdzv-conf master-addr master-port node-rank standalone use-env "
    "main-process-ip main-process-port machine-rank same-network multi-gpu hostfile force-multi no-ssh cpu "
    "mps bind-cores-to-rank m module no-python",
    "container": "",
}
"""Options that Argosy's own launcher replaces, by the kind of launcher."""


@dataclass(frozen=True)
class Starter:
    """A program that starts another one.

    Args:
        kind: srun, mpi, torch or container.
        flags: its options without a value, without dashes and with `-` for `_`.
        sizes: options, and which size they give.
    """

    kind: str
    flags: frozenset[str]
    sizes: Mapping[str, str] = field(default_factory=dict)


def _starter(kind: str, flags: str, sizes: str = "") -> Starter:
    return Starter(kind, frozenset(flags.split()), dict(each.split("=") for each in sizes.split()))


_SRUN_SIZES = "nodes ntasks ntasks-per-node cpus-per-task gpus gpus-per-node gpus-per-task gres mem mem-per-cpu mem-per-gpu"
_MPIRUN = _starter(
    "mpi",
    "allow-run-as-root oversubscribe tag-output display-map report-bindings bynode bycore verbose v q l",
    "np=ntasks n=ntasks c=ntasks npernode=ntasks-per-node ppn=ntasks-per-node N=ntasks-per-node",
)
_CONTAINER = _starter(
    "container",
    "nv rocm c contain C containall e cleanenv i ipc p pid writable writable-tmpfs w no-home f fakeroot "
    "u userns rm gpu mpi nccl t it ti privileged no-init compat",
)
STARTERS: Mapping[str, Starter] = {
    "srun": Starter("srun", FLAGS, {name: name for name in _SRUN_SIZES.split()}),
    **dict.fromkeys(
        ["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "ibrun", "aprun", "jsrun"],
        _MPIRUN,
    ),
    "horovodrun": _starter(
        "mpi", "verbose gloo mpi autotune", "np=ntasks n=ntasks num-proc=ntasks"
    ),
    "torchrun": _starter(
        "torch",
        "standalone module m no-python use-env run-path",
        "nnodes=nodes nproc-per-node=workers-per-node",
    ),
    "accelerate": _starter(
        "torch",
        "multi-gpu cpu mps tpu use-deepspeed use-fsdp use-megatron-lm use-xpu m module no-python q quiet "
        "debug same-network",
        "num-machines=nodes num-processes=workers",
    ),
    "deepspeed": _starter(
        "torch",
        "module no-python no-local-rank no-ssh force-multi bind-cores-to-rank",
        "num-nodes=nodes num-gpus=workers-per-node",
    ),
    **dict.fromkeys(
        ["singularity", "apptainer", "docker", "podman", "podman-hpc", "udocker"], _CONTAINER
    ),
    "shifter": _starter("container", "v verbose"),
}
"""Launchers and containers by their names."""
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
}
_TWO_VALUES_OF_MPI = ("mca", "gmca", "genv", "env")
_MOUNTS = ("B", "bind", "v", "V", "volume", "container-mounts")
_WRAPPERS = ("exec", "time", "command", "nohup")
UNKNOWN = f"the script runs it, not the ranks: {IN_BLOCK}"
_BY_REASON = {
    "prints only: Argosy records the nodes, packages, times and GPUs of each run": (
        "echo printf date hostname env printenv nvidia-smi rocm-smi lscpu lsmod scontrol squeue sacct seff "
        "which pwd ls cat df du free nproc uname head tail ip grep"
    ),
    "prepares files: do it before the runs, or in the block `stage` of the site's job.sbatch.j2": (
        "mkdir cp mv rm ln rsync tar unzip gunzip touch chmod wget curl git make cmake sbcast"
    ),
    "installs packages: do it before the runs, or in a Containerfile": "pip pip3",
    "is of the script alone: Argosy's own script ends, and cleans up, by itself": (
        "set trap wait exit sleep kill true false : shift"
    ),
    UNKNOWN: (
        "conda mamba module ml ulimit unset srun sbatch scancel cd export source . eval read test [ ray "
        "taskset alias umask sed awk"
    ),
}
REASONS = {name: reason for reason, names in _BY_REASON.items() for name in names.split()}
"""Commands that are no program of a study, and why they are not taken."""


@dataclass
class Launch:
    """A launch line: the program, and what its launchers were told."""

    program: list[str] = field(default_factory=list)
    starters: list[str] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    image: str = ""
    mounts: list[tuple[str, str, str]] = field(default_factory=list)
    """Folders of the host that a container shows: the starter, the option and its value."""
    other: list[tuple[str, str, str]] = field(default_factory=list)
    """Options that have no place in an experiment, likewise."""
    before: list[list[str]] = field(default_factory=list)
    """Commands of a shell's text before the program."""

    @property
    def is_torch(self) -> bool:
        """Whether torchrun or its like starts ranks."""
        return any(STARTERS[name].kind == "torch" for name in self.starters)

    def note(self, name: str, option: str, values: Sequence[str]) -> None:
        """Keep an option of a launcher or container in its place."""
        starter, value = STARTERS[name], " ".join(values)
        key = option.lstrip("-").replace("_", "-")
        if size := starter.sizes.get(key):
            self.sizes[size] = value
        elif key == "container-image" or (name == "shifter" and key == "image"):
            self.image = value
        elif key in _MOUNTS and starter.kind in ("container", "srun"):
            self.mounts.append((name, option, value))
        elif key in ("x", "genv", "env", "e") and starter.kind in ("mpi", "container") and values:
            variable, _, text = "=".join(values).partition("=")
            if text:
                self.environment[variable] = text
        elif key == "mixed-precision":
            self.environment["ACCELERATE_MIXED_PRECISION"] = value
        elif key not in _REPLACED[starter.kind].split():
            self.other.append((name, option, value))


def read_launch(words: Sequence[str], split: Callable[[str], list[str]]) -> Launch | None:
    """Take a simple command apart; None if it starts no program.

    Args:
        words: of the command.
        split: splits the text of `bash -c` into words.
    """
    launch = Launch()
    rest = _without_starters(launch, list(words), split)
    name = PurePosixPath(rest[0]).name if rest else ""
    if not name or is_open(rest[0]) or name in REASONS:
        return None
    is_python = bool(PYTHON.fullmatch(name))
    if is_python and (len(rest) == 1 or rest[1] in ("-c", "-V", "--version", "-")):
        return None
    if is_python and rest[1] == "-m" and rest[2:3] in (["pip"], ["venv"], ["ensurepip"]):
        return None
    is_program = is_python or "/" in rest[0] or name.endswith((".py", ".sh"))
    if not launch.starters and not is_program:
        return None
    launch.program = rest
    return launch


def _without_starters(
    launch: Launch, rest: list[str], split: Callable[[str], list[str]]
) -> list[str]:
    """Return what is left of a command without its launchers, containers and wrappers."""
    while rest:
        name = PurePosixPath(rest[0]).name
        if assignment := ASSIGNMENT.fullmatch(rest[0]):
            launch.environment[assignment[1]] = assignment[2]
            rest = rest[1:]
        elif name in _WRAPPERS or (name == "env" and ASSIGNMENT.fullmatch("".join(rest[1:2]))):
            rest = rest[1:]
        elif PYTHON.fullmatch(name) and (starter := _MODULES.get(_behind(rest, "-m"))):
            rest = _after_starter(launch, starter, rest[rest.index("-m") + 2 :])
        elif name == "accelerate" and rest[1:2] != ["launch"]:
            return []
        elif name in STARTERS:
            rest = _after_starter(launch, name, rest[1:])
        elif name in SHELLS and (text := _behind(rest, "-[a-z]*c")):
            rest = _last_command(launch, split(text))
        else:
            break
    return rest


def _behind(words: Sequence[str], option: str) -> str:
    """Return the word behind an option of an interpreter; empty without one."""
    for word, following in zip(words[1:], words[2:], strict=False):
        if re.fullmatch(option, word):
            return following
        if not word.startswith("-"):
            break
    return ""


def _last_command(launch: Launch, words: Sequence[str]) -> list[str]:
    """Return the last simple command of a shell's text, and note those before it."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word and set(word) <= set(";&|"):
            commands.append([])
        else:
            commands[-1].append(word)
    *launch.before, last = [each for each in commands if each] or [[]]
    return last


def _after_starter(launch: Launch, name: str, words: list[str]) -> list[str]:
    """Read the options of a launcher or container; return what it starts."""
    starter = STARTERS[name]
    launch.starters.append(name)
    if name == "srun":
        options, rest = options_of(words)
        for option, value in options:
            launch.note(name, f"--{option}", [value])
        return rest
    has_image = starter.kind == "container" and name != "shifter"
    if has_image or name == "accelerate":
        while words and words[0].startswith("-"):
            words = words[1:]
        words = words[1:]
    given, rest = _options_of_starter(launch, name, words)
    if has_image:
        launch.image, rest = (rest or [""])[0], rest[1:]
    if starter.kind == "torch" and rest and "no-python" not in given:
        rest = ["python3", *(["-m"] if given & {"m", "module"} else []), *rest]
    return rest


def _options_of_starter(launch: Launch, name: str, words: list[str]) -> tuple[set[str], list[str]]:
    """Note the options of a launcher; return their names, and the words behind them."""
    starter, given, place = STARTERS[name], set[str](), 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "--":
            place += 1
            break
        written, equals, value = words[place].partition("=")
        option = written.lstrip("-").replace("_", "-")
        place += 1
        is_pair = starter.kind == "mpi" and option in _TWO_VALUES_OF_MPI
        count = 0 if equals or option in starter.flags else 1 + is_pair
        values = [value] if equals else words[place : place + count]
        place += count
        given.add(option)
        launch.note(name, written, values)
    return given, words[place:]
