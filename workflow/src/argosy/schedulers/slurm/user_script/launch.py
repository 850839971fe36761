"""Parses a launch line: launchers and containers, their options, and the program that they start."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath

from argosy.schedulers.slurm.user_script.lines import ASSIGNMENT, IN_BLOCK, is_open
from argosy.schedulers.slurm.user_script.options import options_of
from argosy.study.command_launchers import PYTHON, SHELLS


def _table(text: str) -> dict[str, list[str]]:
    """Parse a table `KEY | WORDS`; a line that begins with a blank continues the previous line."""
    pairs = (each.split(" | ") for each in text.strip().replace("\n ", " ").split("\n"))
    return {key: words.split() for key, words in pairs}


def _by_word(text: str) -> dict[str, str]:
    return {word: key for key, words in _table(text).items() for word in words}


STARTERS = _by_word("""
srun | srun
mpi | mpirun mpiexec mpiexec.hydra orterun prterun ibrun aprun jsrun horovodrun
torch | torchrun accelerate deepspeed
singularity | singularity apptainer
docker | docker podman podman-hpc udocker
shifter | shifter
""")
"""Kinds of launchers and containers, by command."""
CONTAINERS = ("singularity", "docker", "shifter")
_FLAGS = _table("""
mpi | allow-run-as-root oversubscribe tag-output display-map report-bindings bynode bycore verbose v q l
 gloo mpi autotune
torch | standalone module m no-python use-env run-path multi-gpu cpu mps tpu use-deepspeed use-fsdp use-xpu
 use-megatron-lm q quiet debug same-network no-local-rank no-ssh force-multi bind-cores-to-rank
singularity | nv rocm c contain C containall e cleanenv i ipc p pid writable writable-tmpfs w no-home f
 fakeroot u userns no-init compat
docker | rm i t it ti gpu mpi nccl privileged init
shifter | v verbose
""")
"""Options without a value by kind, without dashes and with `-` for `_`."""
_REPLACED = _table("""
srun | label unbuffered kill-on-bad-exit mpi export exact overlap wait
mpi | hostfile machinefile host hosts H f bind-to map-by rank-by report-bindings mca gmca allow-run-as-root
 oversubscribe prefix launcher iface tag-output mpi gloo
torch | rdzv-backend rdzv-endpoint rdzv-id rdzv-conf master-addr master-port node-rank standalone use-env
 main-process-ip main-process-port machine-rank same-network multi-gpu hostfile force-multi no-ssh cpu
 mps bind-cores-to-rank m module no-python
""")
"""Options that Argosy replaces, by kind."""
_SIZES = _by_word("""
nodes | torch.nnodes torch.num-machines torch.num-nodes
ntasks | mpi.np mpi.n mpi.c mpi.num-proc
ntasks-per-node | mpi.npernode mpi.ppn mpi.N
workers-per-node | torch.nproc-per-node torch.num-gpus
workers | torch.num-processes
""")
"""Sizes by kind and option of the launcher."""
_SIZES |= {
    f"srun.{name}": name
    for name in (
        *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gres", "gpus", "gpus-per-node"),
        *("gpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu"),
    )
}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
}
_TWO_VALUES_OF_MPI = ("mca", "gmca", "genv", "env")
_MOUNTS = ("B", "bind", "v", "V", "volume", "container-mounts")
MORE = ":"
"""Separator before another program of srun and mpirun, for other ranks."""
_WRAPPERS = ("exec", "time", "command", "nohup")
UNKNOWN = f"the script runs it, not the ranks: {IN_BLOCK}"
REASONS = _by_word(f"""
prints only: Argosy records the nodes, packages, times and GPUs of each run | echo printf date hostname env
 printenv nvidia-smi rocm-smi lscpu lsmod scontrol squeue sacct seff which pwd ls cat df du free nproc uname
 head tail ip grep
prepares files: do it before the runs, or in the block `stage` of the site's job.sbatch.j2 | mkdir cp mv rm
 ln rsync tar unzip gunzip touch chmod wget curl git make cmake sbcast
installs packages: do it before the runs, or in a Containerfile | pip pip3
concerns only the script: Argosy's own script handles its end and its cleanup | set trap wait exit sleep
 kill true false : shift
{UNKNOWN} | conda mamba module ml ulimit unset srun sbatch scancel cd export source . eval read test [ ray
 taskset alias umask sed awk
""")
"""Reasons why a command is not a program of a study, by command."""


@dataclass
class Launch:
    """A launch line: the program, and the options of its launchers."""

    program: list[str] = field(default_factory=list)
    starters: list[str] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    image: str = ""
    mounts: list[tuple[str, str, str]] = field(default_factory=list)
    """Mounts of a container: the starter, the option and its value."""
    other: list[tuple[str, str, str]] = field(default_factory=list)
    """Options without a key: the starter, the option and its value."""
    before: list[list[str]] = field(default_factory=list)
    """Commands before the program in the text of `bash -c`."""

    @property
    def is_torch(self) -> bool:
        """Whether torchrun, accelerate or deepspeed starts ranks."""
        return any(STARTERS[name] == "torch" for name in self.starters)

    def note(self, name: str, option: str, values: Sequence[str]) -> None:
        """Store an option of a launcher or container in the matching field."""
        kind, value = STARTERS[name], " ".join(values)
        key = option.lstrip("-").replace("_", "-")
        if size := _SIZES.get(f"{kind}.{key}"):
            self.sizes[size] = value
        elif key == "container-image" or (kind == "shifter" and key == "image"):
            self.image = value
        elif key in _MOUNTS and value and kind in ("srun", *CONTAINERS):
            self.mounts.append((name, option, value))
        elif key in ("x", "genv", "env", "e") and kind in ("mpi", *CONTAINERS) and values:
            variable, _, text = "=".join(values).partition("=")
            if text:
                self.environment[variable] = text
        elif key == "mixed-precision":
            self.environment["ACCELERATE_MIXED_PRECISION"] = value
        elif key not in _REPLACED.get(kind, []):
            self.other.append((name, option, value))


def read_launch(words: Sequence[str], split: Callable[[str], list[list[str]]]) -> Launch | None:
    """Parse a simple command, splitting `bash -c` by `split`; None if it starts no program."""
    launch = Launch()
    launch.program = rest = _without_starters(launch, list(words), split)
    name = PurePosixPath(rest[0]).name if rest else ""
    if not name or is_open(rest[0]) or name in REASONS:
        return None
    if PYTHON.fullmatch(name):
        is_other = " ".join(rest[1:3]) in ("-m pip", "-m venv", "-m ensurepip")
        is_none = is_other or rest[1:2] in ([], ["-c"], ["-V"], ["--version"], ["-"])
        return None if is_none else launch
    is_program = "/" in rest[0] or name.endswith((".py", ".sh"))
    return launch if launch.starters or is_program else None


def _without_starters(
    launch: Launch, rest: list[str], split: Callable[[str], list[list[str]]]
) -> list[str]:
    """Strip launchers, containers and wrappers from a command."""
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
            if MORE in rest and STARTERS[name] in ("srun", "mpi"):
                place = rest.index(MORE)
                launch.other.append((name, MORE, " ".join(rest[place + 1 :])))
                rest = rest[:place]
        elif name in SHELLS and (text := _behind(rest, "-[a-z]*c")):
            *launch.before, rest = split(text) or [[]]
        else:
            break
    return rest


def _behind(words: Sequence[str], option: str) -> str:
    """Return the word after an option of an interpreter; empty without one."""
    for word, following in pairwise(words[1:]):
        if re.fullmatch(option, word):
            return following
        if not word.startswith("-"):
            break
    return ""


def _after_starter(launch: Launch, name: str, words: list[str]) -> list[str]:
    """Read the options of a launcher or container; return the command that it starts."""
    kind = STARTERS[name]
    launch.starters.append(name)
    if kind == "srun":
        options, rest = options_of(words)
        for option, value in options:
            launch.note(name, f"--{option}", [value])
        return rest
    if name == "accelerate" or kind in ("singularity", "docker"):
        while words and words[0].startswith("-"):
            words = words[1:]
        words = words[1:]
    given, rest = _options_of_starter(launch, name, words)
    if kind in ("singularity", "docker"):
        launch.image, rest = (rest or [""])[0], rest[1:]
    if kind == "torch" and rest and "no-python" not in given:
        rest = ["python3", *(["-m"] if given & {"m", "module"} else []), *rest]
    return rest


def _options_of_starter(launch: Launch, name: str, words: list[str]) -> tuple[set[str], list[str]]:
    """Note the options of a launcher; return their names, and the words after them."""
    kind, given = STARTERS[name], set[str]()
    while words and words[0].startswith("-"):
        word, words = words[0], words[1:]
        if word == "--":
            break
        written, equals, value = word.partition("=")
        option = written.lstrip("-").replace("_", "-")
        count = 1 + (kind == "mpi" and option in _TWO_VALUES_OF_MPI)
        count = 0 if equals or option in _FLAGS[kind] else count
        launch.note(name, written, [value] if equals else words[:count])
        given.add(option)
        words = words[count:]
    return given, words
