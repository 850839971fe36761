"""Takes a launch line apart: launchers and containers, their options, and the program that they start."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from argosy.schedulers.slurm.user_script.lines import ASSIGNMENT, is_open, options_of
from argosy.study.command_launchers import PYTHON, SHELLS

_OF_TORCH = (
    "rdzv-backend rdzv-endpoint rdzv-id rdzv-conf master-addr master-port node-rank standalone use-env "
    "main-process-ip main-process-port machine-rank rdzv-backend same-network multi-gpu hostfile "
    "force-multi no-ssh cpu mps bind-cores-to-rank"
)
_OF_MPI = (
    "hostfile machinefile host hosts H f bind-to map-by rank-by report-bindings mca gmca allow-run-as-root "
    "oversubscribe prefix launcher iface tag-output mpi gloo"
)


@dataclass(frozen=True)
class Starter:
    """A program that starts another one.

    Args:
        flags: its options without a value, without dashes and with `-` for `_`.
        sizes: options, and which size they give.
        replaced: options that Argosy's own launcher replaces.
    """

    flags: frozenset[str]
    sizes: Mapping[str, str] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    runs_python: bool = False
    has_image: bool = False


def _starter(flags: str, sizes: str = "", replaced: str = "", **more: bool) -> Starter:
    pairs = dict(each.split("=") for each in sizes.split())
    return Starter(frozenset(flags.split()), pairs, frozenset(replaced.split()), **more)


_MPIRUN = _starter(
    "allow-run-as-root oversubscribe tag-output display-map report-bindings bynode bycore verbose v q l",
    "np=ntasks n=ntasks c=ntasks npernode=ntasks-per-node ppn=ntasks-per-node N=ntasks-per-node",
    _OF_MPI,
)
_TORCHRUN = _starter(
    "standalone module m no-python use-env run-path",
    "nnodes=nodes nproc-per-node=workers-per-node",
    _OF_TORCH,
    runs_python=True,
)
_CONTAINER = _starter(
    "nv rocm c contain C containall e cleanenv i ipc p pid writable writable-tmpfs w no-home f fakeroot "
    "u userns rm gpu mpi nccl t it ti ipc privileged no-init compat",
    has_image=True,
)
_MPI_STARTERS = (
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "prterun",
    "ibrun",
    "aprun",
    "jsrun",
)
STARTERS: Mapping[str, Starter] = {
    **dict.fromkeys(_MPI_STARTERS, _MPIRUN),
    "horovodrun": _starter(
        "verbose gloo mpi autotune", "np=ntasks n=ntasks num-proc=ntasks", _OF_MPI
    ),
    "torchrun": _TORCHRUN,
    "accelerate": _starter(
        "multi-gpu cpu mps tpu use-deepspeed use-fsdp use-megatron-lm use-xpu m module no-python q quiet "
        "debug same-network",
        "num-machines=nodes num-processes=workers",
        _OF_TORCH,
        runs_python=True,
    ),
    "deepspeed": _starter(
        "module no-python no-local-rank no-ssh force-multi bind-cores-to-rank",
        "num-nodes=nodes num-gpus=workers-per-node",
        _OF_TORCH,
        runs_python=True,
    ),
    "singularity": _CONTAINER,
    "apptainer": _CONTAINER,
    "docker": _CONTAINER,
    "podman-hpc": _CONTAINER,
    "udocker": _CONTAINER,
    "shifter": _starter(""),
}
"""Launchers and containers by their names; srun is read as sbatch's options are."""
TORCH_STARTERS = ("torchrun", "accelerate", "deepspeed")
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
}
_TWO_VALUES = ("mca", "gmca", "genv", "env")
_SRUN_SIZES = frozenset(
    (
        *(
            "nodes",
            "ntasks",
            "ntasks-per-node",
            "cpus-per-task",
            "gpus",
            "gpus-per-node",
            "gpus-per-task",
        ),
        *("gres", "mem", "mem-per-cpu", "mem-per-gpu"),
    )
)
_SRUN_REPLACED = (
    "label",
    "unbuffered",
    "kill-on-bad-exit",
    "mpi",
    "export",
    "exact",
    "overlap",
    "wait",
)
PLAIN_WRAPPERS = ("exec", "time", "command", "nohup")
_NO_PROGRAMS = re.compile(
    r"hostname|nvidia-smi|rocm-smi|env|printenv|date|ls|cat|echo|printf|pwd|which|true|false|sleep|mkdir|rm|cp|"
    r"rsync|tar|pip3?|conda|mamba|module|ml|ulimit|unset|set|trap|wait|exit|kill|scontrol|squeue|sacct|srun|"
    r"sbatch|scancel|seff|df|du|free|lscpu|lsmod|ip|sbcast|cd|export|source|\.|eval|read|test|\[|ray|shift|touch|"
    r"ln|mv|chmod|unzip|gunzip|wget|curl|git|make|cmake|uname|nproc|taskset|alias|umask|tail|head|grep|sed|awk"
)


@dataclass
class Launch:
    """A launch line: the program, and what its launchers were told."""

    program: list[str] = field(default_factory=list)
    starters: list[str] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    image: str = ""
    other: list[tuple[str, str, str]] = field(default_factory=list)
    """Options that are no sizes: the starter, the option and its value."""
    before: list[list[str]] = field(default_factory=list)
    """Commands of a shell's text before the program."""


def read_launch(words: Sequence[str], split: Callable[[str], list[str]]) -> Launch | None:
    """Take a simple command apart; None if it starts no program.

    Args:
        words: of the command.
        split: splits the text of `bash -c` into words.
    """
    launch = Launch()
    rest = _without_starters(launch, list(words), split)
    name = PurePosixPath(rest[0]).name if rest else ""
    if not name or is_open(rest[0]) or _NO_PROGRAMS.fullmatch(name):
        return None
    is_python = bool(PYTHON.fullmatch(name))
    if is_python and (len(rest) == 1 or rest[1] in ("-c", "-V", "--version", "-")):
        return None
    if is_python and rest[1:2] == ["-m"] and rest[2:3] in (["pip"], ["venv"], ["ensurepip"]):
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
        elif name in PLAIN_WRAPPERS or (
            name == "env" and ASSIGNMENT.fullmatch((rest[1:] or [""])[0])
        ):
            rest = rest[1:]
        elif name == "srun":
            rest = _after_srun(launch, rest[1:])
        elif module := _module_of(rest):
            place = rest.index("-m") + 2
            rest = _after_starter(launch, _MODULES[module], rest[place:])
        elif name == "accelerate" and rest[1:2] != ["launch"]:
            return []
        elif name in STARTERS:
            rest = _after_starter(launch, name, rest[1:])
        elif name in SHELLS and (text := _shell_text(rest)) is not None:
            rest = _last_command(launch, split(text))
        else:
            break
    return rest


def _module_of(words: Sequence[str]) -> str | None:
    """Return the launcher that `python -m` starts."""
    if not PYTHON.fullmatch(PurePosixPath(words[0]).name):
        return None
    for place, word in enumerate(words[1:-1], 1):
        if word == "-m":
            return words[place + 1] if words[place + 1] in _MODULES else None
        if not word.startswith("-"):
            return None
    return None


def _shell_text(words: Sequence[str]) -> str | None:
    """Return the text that a shell is given by -c."""
    for place, word in enumerate(words[1:-1], 1):
        if re.fullmatch("-[a-z]*c", word):
            return words[place + 1]
        if not word.startswith("-"):
            return None
    return None


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


def _after_srun(launch: Launch, words: list[str]) -> list[str]:
    """Read the options of srun; return what it starts."""
    options, rest = options_of(words)
    launch.starters.append("srun")
    for name, value in options:
        if name in _SRUN_SIZES:
            launch.sizes.setdefault(name, value)
        elif name == "container-image":
            launch.image = value
        elif name not in _SRUN_REPLACED:
            launch.other.append(("srun", f"--{name}", value))
    return rest


def _after_starter(launch: Launch, name: str, words: list[str]) -> list[str]:
    """Read the options of a launcher or container; return what it starts."""
    starter = STARTERS[name]
    launch.starters.append(name)
    if starter.has_image or name == "accelerate":
        while words and words[0].startswith("-"):
            words = words[1:]
        words = words[1:]
    given, place = set[str](), 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "--":
            place += 1
            break
        written, equals, value = words[place].partition("=")
        option = written.lstrip("-").replace("_", "-")
        place += 1
        count = 0 if equals or option in starter.flags else 2 if option in _TWO_VALUES else 1
        values = [value] if equals else words[place : place + count]
        place += count
        given.add(option)
        _note(launch, name, written, option, values)
    rest = words[place:]
    if starter.has_image:
        launch.image, rest = (rest or [""])[0], rest[1:]
    if starter.runs_python and rest and "no-python" not in given:
        rest = ["python3", *(["-m"] if given & {"m", "module"} else []), *rest]
    return rest


def _note(launch: Launch, name: str, written: str, option: str, values: Sequence[str]) -> None:
    """Keep an option of a launcher or container in its place."""
    starter, value = STARTERS[name], " ".join(values)
    if size := starter.sizes.get(option):
        launch.sizes[size] = value
    elif name == "shifter" and option == "image":
        launch.image = value
    elif option in ("x", "genv", "env", "e") and name != "deepspeed" and values:
        key, _, text = value.replace(" ", "=", 1).partition("=")
        if text:
            launch.environment[key] = text
    elif option == "mixed-precision":
        launch.environment["ACCELERATE_MIXED_PRECISION"] = value
    elif option not in starter.replaced and option not in ("m", "module", "no-python"):
        launch.other.append((name, written, value))
