"""Parses options of sbatch and srun, in a batch script and after srun."""

import re
import shlex
from dataclasses import dataclass

from argosy.schedulers.slurm.user_script.lines import Script, is_open

IMAGES = ("image", "container-image")
"""Options of Shifter and Pyxis that name an image."""
MOUNTS = {"volume": ";", "container-mounts": ","}
"""Options of Shifter and Pyxis that name mounts, and the separator of mounts."""
_SHORT = """
A=account a=array b=begin c=cpus-per-task C=constraint d=dependency D=chdir e=error E=preserve-env
F=nodefile G=gpus H=hold i=input J=job-name k=no-kill K=kill-on-bad-exit l=label L=licenses
m=distribution M=clusters n=ntasks N=nodes o=output O=overcommit p=partition q=qos Q=quiet
s=oversubscribe S=core-spec t=time T=threads u=unbuffered v=verbose w=nodelist W=wait x=exclude
X=disable-status Z=no-allocate
"""
SHORT = dict(pair.split("=") for pair in _SHORT.split())
_SAME = {"tasks-per-node": "ntasks-per-node"}
_FLAGS = """
contiguous container-mount-home container-readonly container-remap-root container-writable disable-status
exact exclusive get-user-env hold ignore-pbs kill-on-bad-exit label multi-prog nice no-allocate
no-container-entrypoint no-container-mount-home no-container-remap-root no-kill no-requeue overcommit
overlap oversubscribe parsable preserve-env propagate pty quiet reboot requeue spread-job test-only
unbuffered use-min-nodes verbose whole
"""
_OTHER_PART = re.compile(r"#SBATCH\s+(?:het|pack)job\b")
FLAGS = frozenset(_FLAGS.split())
"""Long options without a value, or with an optional one after `=`."""
_WITH_VALUE = ("account", "partition", "qos", "constraint", "signal", *IMAGES, *MOUNTS)


@dataclass(frozen=True)
class Directive:
    """An option in a line that begins with #SBATCH; `value` is empty without one."""

    line: str
    name: str
    value: str

    @property
    def text(self) -> str:
        """The option in the syntax of sbatch."""
        return f"--{self.name}" + (f"={self.value}" if self.value else "")


def job_options(script: Script) -> dict[str, Directive]:
    """Return the last directive of each option, which overrides earlier ones."""
    found: dict[str, Directive] = {}
    is_other = False
    for line, text in script.directives:
        is_other = is_other or bool(_OTHER_PART.search(text))
        if is_other:
            script.leave(
                line,
                text,
                "belongs to another component of a heterogeneous job: nodes of a run are alike",
            )
            continue
        try:
            options, rest = options_of(shlex.split(text.removeprefix("#SBATCH"), comments=True))
        except ValueError as problem:
            script.leave(line, text, f"cannot be split into words ({problem}): correct it")
            continue
        if rest or not options:
            script.leave(line, text, "contains no option of sbatch: correct it")
        for each in (Directive(line, *option) for option in options):
            if not each.value.isprintable() or (each.name in _WITH_VALUE and not each.value):
                script.leave(line, each.text, "has no readable value: correct it")
                continue
            if before := found.pop(each.name, None):
                script.leave(before.line, before.text, f"line {line} sets it again")
            found[each.name] = each
    return found


def options_of(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return long names and values of options of sbatch and srun, and the words after them."""
    found, place = [], 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        word, following = words[place], words[place + 1 : place + 2]
        place += 1
        if word.startswith("--") or is_open(word[1:2]):
            name, equals, value = word.lstrip("-").partition("=")
        else:
            name, value = SHORT.get(word[1:2], word[1:2]), word[2:]
            equals = value
        if not equals and name not in FLAGS and following and following[0][:1] != "-":
            value = following[0]
            place += 1
        found.append((_SAME.get(name, name), value))
    return found, words[place + (words[place : place + 1] == ["--"]) :]
