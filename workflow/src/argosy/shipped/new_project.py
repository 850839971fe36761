"""Files of a new project in a folder that has a program: `argosy init` writes them and overwrites none."""

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from argosy.shipped.files import SHIPPED
from argosy_common.errors import ArgosyError, choices
from argosy_common.files import write_text

SNAKEFILE = """\
# Argosy's workflow: image, runs, tables and report. `argosy --help` lists its commands.
from argosy.shipped import snakefile


include: snakefile()


# The default target. Add results of your own rules to its inputs.
rule project:
    input:
        rules.all.input,
    localrule: True
"""
IGNORED = ("/.argosy", "/.snakemake/", "/results/", "/resources/", "/logs/")
"""Lines of .gitignore."""
COPIED = ("profiles/default/config.yaml", "slurm/local/site.yaml")
"""Argosy's files that a project changes."""
LAUNCHERS = {"horovod": r"\bhorovod\b", "torch": r"torch\.distributed|\blightning\b|\baccelerate\b"}
"""Launchers, and what a program has that needs them."""
_PYTHON = re.compile(r"python[\d.]*")
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class NewProject:
    """A project to be.

    Args:
        folder: of the program.
        command: starts the program, with paths in this folder.
        image: the folder of an image.
    """

    folder: Path
    command: Sequence[str]
    image: str

    def write(self) -> list[str]:
        """Write the files that the folder lacks, and return their names.

        Raises:
            ArgosyError: if the folder has a Snakefile or a configuration, or the command is empty.
        """
        texts = self._texts()
        for name in ("Snakefile", "config/config.yaml"):
            if (self.folder / name).exists():
                raise ArgosyError(
                    f"{self.folder / name}: this file exists already, and nothing is overwritten",
                    "to add Argosy to a workflow see docs/as-a-module.md",
                )
        new = {name: text for name, text in texts.items() if not (self.folder / name).exists()}
        for name, text in new.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / name, text)
        return [*new, *self._ignore()]

    def _texts(self) -> dict[str, str]:
        copied = {name: (SHIPPED / name).read_text(encoding="utf-8") for name in COPIED}
        return {"Snakefile": SNAKEFILE, "config/config.yaml": self._config(), **copied}

    def _config(self) -> str:
        if not self.command:
            raise ArgosyError(
                "--command: is empty", "name the program: 'python train.py --lr 1e-3'"
            )
        launcher = self._launcher()
        experiment: dict[str, object] = {
            "image": self.image,
            "command": shlex.join(self._words()),
            "launcher": launcher,
            "scale": {
                "kind": "strong",
                "nodes": [1] if launcher == "plain" else [1, 2],
                "ranks_per_node": 1,
                "repeats": 3,
            },
            "resources": {"cpus_per_rank": 1, "memory_per_rank": "2G", "time": "10m"},
        }
        if "-m" in self.command:
            experiment["environment"] = {"PYTHONPATH": "/workloads"}
        text = yaml.safe_dump({"experiments": {self.name: experiment}}, sort_keys=False, width=1000)
        return (
            "# The experiments of this project. Containers see this folder as /workloads.\n"
            f"{text}"
            "    # The report needs the samples per second. If the program prints them, remove the mark\n"
            "    # of the next line and write the pattern of its output, with one group.\n"
            "    # throughput: '([0-9.,]+) samples/s'\n"
        )

    @property
    def name(self) -> str:
        """The name of the experiment: that of the program."""
        stems = [PurePosixPath(word).stem for word in self.command if self._is_here(word)]
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", (stems or ["training"])[0]).strip("-._")
        return name[:64] or "training"

    def _words(self) -> list[str]:
        """Return the command as a container has it."""
        first, *others = map(self._inside, self.command)
        return ["python3" if _PYTHON.fullmatch(first) else first, *others]

    def _inside(self, word: str) -> str:
        return f"/workloads/{PurePosixPath(word)}" if self._is_here(word) else word

    def _is_here(self, word: str) -> bool:
        """Return whether a word names a file or folder in this folder, and not the folder itself."""
        path = PurePosixPath(word)
        is_below = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
        return is_below and (self.folder / path).exists()

    def _launcher(self) -> str:
        """Return the launcher of the program that the command names; `plain` if none is recognised."""
        programs = (self.folder / word for word in self.command if self._is_here(word))
        for path in programs:
            if path.is_file():
                with path.open("rb") as file:
                    text = file.read(_READ_BYTES).decode("utf-8", "replace")
                for launcher, pattern in LAUNCHERS.items():
                    if re.search(pattern, text):
                        return launcher
        return "plain"

    def _ignore(self) -> list[str]:
        """Add what Argosy makes to .gitignore, and return the file's name if it changed."""
        path = self.folder / ".gitignore"
        there = path.read_text(encoding="utf-8") if path.is_file() else ""
        new = [line for line in IGNORED if line not in there.splitlines()]
        if not new:
            return []
        end = "" if there.endswith("\n") or not there else "\n"
        write_text(path, there + end + "\n".join(new) + "\n")
        return [path.name]


def add_site(project: Path, name: str) -> list[Path]:
    """Copy the folder of a cluster that comes with Argosy into slurm/; return what was written.

    Raises:
        ArgosyError: if the project has it, or Argosy does not.
    """
    return [_copy_shipped(project, Path("slurm", name), "site.yaml")]


def eject_image(project: Path, name: str) -> list[Path]:
    """Copy the folder of an image that comes with Argosy into containers/, with the images below it.

    Raises:
        ArgosyError: if the project has it, or Argosy does not.
    """
    written = [_copy_shipped(project, Path("containers", name), "Containerfile")]
    text = (project / written[0] / "Containerfile").read_text(encoding="utf-8")
    for base in dict.fromkeys(_OWN_IMAGE.findall(text)):
        if not (project / "containers" / base).exists():
            written += eject_image(project, base)
    return written


_OWN_IMAGE = re.compile(r"(?:^FROM |from=)localhost/([A-Za-z0-9._-]+)", re.MULTILINE)


def _copy_shipped(project: Path, there: Path, mark: str) -> Path:
    known = sorted(path.parent.name for path in (SHIPPED / there.parent).glob(f"*/{mark}"))
    if there.name not in known:
        raise ArgosyError(f"{there}: does not come with Argosy", choices(known, there.name))
    if (project / there).exists():
        raise ArgosyError(f"{there}: exists already, and nothing is overwritten", "change it there")
    shutil.copytree(SHIPPED / there, project / there)
    return there
