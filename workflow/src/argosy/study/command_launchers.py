"""Launchers in a command: Argosy starts the ranks, so a second launcher would start them again, or hang.

The command is parsed as a shell would, through wrappers such as `env X=1` and `bash -c`, and never run.
Scripts are not searched.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

RANK_STARTERS = {
    *("srun", "aprun", "jsrun", "lrun", "ibrun", "horovodrun"),
    *("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "orterun", "prterun", "prun"),
}
SUBMITTERS = {"sbatch", "salloc", "qsub", "bsub"}
WORKER_STARTERS = {"torchrun", "deepspeed", "torch.distributed.run", "torch.distributed.launch"}
"""Launchers of the workers of one node; options name the other nodes."""

OF_OTHER_NODES = re.compile(
    r"--(?:rdzv|master|main)[-_](?:endpoint|addr|process[-_]ip)\b|--hostfile\b|--deepspeed_hostfile\b"
)
QUESTIONS = {"--version", "-V", "--help", "-h"}
SHELLS = {"bash", "sh", "dash", "zsh", "ksh"}
PYTHON = re.compile(r"python[\d.]*")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
SEPARATOR = re.compile(r"&{1,2}|[<>]*[;|()][;&|()<>]*")
"""Separators of simple commands; >&, as in 2>&1, is not one."""
KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{"}

WRAPPERS: Mapping[str, tuple[frozenset[str], int]] = {
    name: (frozenset(options.split()), arguments)
    for name, options, arguments in (
        ("env", "-u --unset -C --chdir", 0),
        ("exec", "-a", 0),
        ("command", "", 0),
        ("time", "-f --format -o --output", 0),
        ("nohup", "", 0),
        ("setsid", "", 0),
        ("nice", "-n --adjustment", 0),
        ("ionice", "-c --class -n --classdata", 0),
        ("timeout", "-s --signal -k --kill-after", 1),
        ("stdbuf", "-i --input -o --output -e --error", 0),
        ("taskset", "", 1),
        ("chrt", "", 1),
        (
            "numactl",
            "-N --cpunodebind -m --membind -C --physcpubind -i --interleave -p --preferred",
            0,
        ),
        ("catchsegv", "", 0),
    )
}
"""Programs that start another one: options with a value, and number of arguments before that program."""


_OF_RANKS = {"horovod", "torch", "plain"}
"""Launchers that start the command once per rank and pass no node addresses."""


def refuse_launchers(
    words: Sequence[str], variables: Iterable[str], ranks: int, launcher: str
) -> None:
    """Refuse a command that starts ranks itself, or workers that cannot find the other nodes' workers.

    Args:
        words: the command.
        variables: names of the experiment's variables; PET_* are options of torchrun.
        ranks: number of ranks at the largest size.
        launcher: the experiment's launcher.

    Raises:
        ValueError: naming the launcher and the key to use instead.
    """
    by_variables = any(each.startswith("PET_") for each in (*variables, *words))
    for command, by_shell in _commands(words, by_shell=False):
        name = _program(command)
        if QUESTIONS.intersection(command[1:2]):
            continue
        if name in RANK_STARTERS:
            raise ValueError(
                f"command: {name}: the command is started on every node already, once for each "
                f"rank: remove {name} and its options; scale.nodes and scale.ranks_per_node set "
                "the number of ranks"
            )
        if name in SUBMITTERS:
            raise ValueError(
                f"command: {name}: the command runs in a job that Argosy submits: remove {name} "
                "and its options; set the job's requests by resources, or by options in site.yaml"
            )
        if name not in WORKER_STARTERS or ranks == 1 or by_variables or launcher not in _OF_RANKS:
            continue
        if not _finds_others(command, by_shell):
            raise ValueError(
                f"command: {name}: it is started once for each of {ranks} ranks, without the "
                f"addresses of the others, so each would train alone: remove {name} and write "
                "launcher: torch, which starts the program as torchrun does; or write launcher: per-node, "
                f"which starts {name} once a node and tells it where the others are"
            )


def _finds_others(command: Sequence[str], by_shell: bool) -> bool:
    """Return whether an option names the other nodes; a variable counts only if a shell expands it."""
    if not by_shell and any("$" in word for word in command):
        return False
    return any(map(OF_OTHER_NODES.match, command))


def _program(command: Sequence[str]) -> str:
    """Return the program that a command starts; for `python -m`, the module."""
    name = command[0].rpartition("/")[2]
    if PYTHON.fullmatch(name) and "-m" in command[1:-1]:
        return command[command.index("-m") + 1]
    if name == "accelerate" and command[1:2] == ["launch"]:
        return "torchrun"
    return name


def shell_text(words: Sequence[str]) -> str | None:
    """Return the shell code that a command passes to `bash -c` or `eval`; None if it passes none."""
    return _given_to_shell(_unwrapped(words))


def _given_to_shell(command: Sequence[str]) -> str | None:
    name = command[0].rpartition("/")[2] if command else ""
    if name == "eval":
        return " ".join(command[1:])
    return _text_behind_c(command) if name in SHELLS else None


def _unwrapped(words: Sequence[str]) -> list[str]:
    """Return a command without its wrappers and assignments."""
    command = [*words]
    while command:
        name = command[0].rpartition("/")[2]
        if ASSIGNMENT.match(command[0]) or command[0] in KEYWORDS:
            command = command[1:]
        elif name in WRAPPERS:
            command = _inside(command, *WRAPPERS[name])
        else:
            break
    return command


def _commands(words: Sequence[str], *, by_shell: bool) -> Iterator[tuple[list[str], bool]]:
    """Yield each simple command without its wrappers, and whether a shell parses it."""
    waiting = [([*words], by_shell)]
    while waiting:
        inner, by_shell = waiting.pop()
        command = _unwrapped(inner)
        text = _given_to_shell(command)
        if text is not None:
            waiting += reversed([(each, True) for each in _split(text)])
        elif command:
            yield command, by_shell


def _inside(command: Sequence[str], with_value: frozenset[str], arguments: int) -> list[str]:
    """Return the command that a wrapper starts."""
    rest = [*command[1:]]
    while rest and (rest[0].startswith("-") or ASSIGNMENT.match(rest[0])):
        rest = rest[2:] if rest[0] in with_value else rest[1:]
    return rest[arguments:]


def _text_behind_c(command: Sequence[str]) -> str | None:
    """Return the argument of -c; None if the shell reads a script."""
    for place, word in enumerate(command[1:], 1):
        if re.fullmatch("-[a-z]*c[a-z]*", word):
            return next((each for each in command[place + 1 :] if not each.startswith("-")), None)
    return None


def _split(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command in shell code, up to an unclosed quote."""
    reader = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
    reader.wordchars += "$+,:@%!{}[]"
    found: list[str] = []
    try:
        for word in reader:
            if SEPARATOR.fullmatch(word):
                yield found
                found = []
            else:
                found.append(word)
    except ValueError:
        return
    yield found
