"""Writes the files of a new project into a program's folder, for `argosy init`; overwrites none."""

import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from argosy.shipped.files import SHIPPED
from argosy.shipped.program import Program
from argosy.study.config import Source, parse_config
from argosy_common.errors import ArgosyError, choices
from argosy_common.files import replacing, write_text

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
CONFIG = "config/config.yaml"
IGNORED = ("/.argosy", "/.snakemake/", "/results/", "/resources/", "/logs/")
"""Lines of .gitignore."""
COPIED = ("profiles/default/config.yaml", "slurm/local/site.yaml")
"""Files of Argosy that a project gets its own copy of."""
_THROUGHPUT = """\
    # The report needs the samples per second. If the program prints them, remove the mark
    # of the next line and write the pattern of its output, with one group.
    # throughput: '([0-9.,]+) samples/s'
"""


def write_project(folder: Path, own: Mapping[str, str]) -> list[str]:
    """Write the missing files of a project, and return their names.

    Args:
        own: texts of the project's own files by name, such as its configuration.

    Raises:
        ArgosyError: if one of these files, or the Snakefile, exists with other content.
    """
    own = {"Snakefile": SNAKEFILE, **own}
    for name, text in own.items():
        path = folder / name
        # An interrupted call has written an identical file.
        if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
            raise ArgosyError(
                f"{path}: this file exists already, and nothing is overwritten", _remedy(name)
            )
    copied = {name: (SHIPPED / name).read_text(encoding="utf-8") for name in COPIED}
    new = {name: text for name, text in {**own, **copied}.items() if not (folder / name).exists()}
    for name, text in new.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, text)
    return [*new, *_ignore(folder)]


def _remedy(name: str) -> str:
    if name == "Snakefile":
        return "add Argosy to this workflow as docs/as-a-module.md describes, or move the file away"
    if name == CONFIG:
        return "add an experiment by: argosy run -- python train.py; a cluster by: argosy site probe NAME"
    return "choose another name: --site NAME"


def first_experiment(program: Program, image: str | None) -> dict[str, Any]:
    """Return an experiment with default values for a program; without `image` it is native."""
    return {
        **({"image": image} if image else {"runtime": "native"}),
        "command": shlex.join(program.command),
        "launcher": program.launcher,
        "scale": {"kind": "strong", "nodes": [1], "ranks_per_node": 1, "repeats": 3},
        "resources": {"cpus_per_rank": 1, "memory_per_rank": "2G", "time": "10m"},
        **({"environment": program.environment} if program.environment else {}),
    }


def config_text(experiments: Mapping[str, Any], source: str) -> str:
    """Return the text of a configuration.

    Args:
        source: their origin, for messages.

    Raises:
        ArgosyError: if the configuration is invalid.
    """
    content = {"experiments": dict(experiments)}
    parse_config(content, [Source(source, content)])
    has_throughput = any("throughput" in each for each in experiments.values())
    text = yaml.safe_dump(content, sort_keys=False, width=1000, allow_unicode=True)
    return (
        "# The experiments of this project. Containers see this folder as /workloads.\n"
        f"{text}{'' if has_throughput else _THROUGHPUT}"
    )


def site_profile(name: str) -> str:
    template = SHIPPED / "slurm/mycluster/config.yaml"
    return template.read_text(encoding="utf-8").replace("mycluster", name)


def _ignore(folder: Path) -> list[str]:
    """Add Argosy's folders to .gitignore, and return the file's name if it changed."""
    path = folder / ".gitignore"
    there = path.read_bytes() if path.is_file() else b""
    lines = there.splitlines()
    new = [line.encode() for line in IGNORED if line.encode() not in lines]
    if not new:
        return []
    end = b"" if there.endswith(b"\n") or not there else b"\n"
    with replacing(path) as temporary:
        temporary.write_bytes(there + end + b"\n".join(new) + b"\n")
    return [path.name]


def add_site(project: Path, name: str) -> list[Path]:
    """Copy the folder of a cluster that comes with Argosy into slurm/, and return its path.

    Raises:
        ArgosyError: if the project has it already, or Argosy lacks it.
    """
    return [_copy_shipped(project, Path("slurm", name), "site.yaml")]


def eject_image(project: Path, name: str) -> list[Path]:
    """Copy the folder of an image that comes with Argosy into containers/, with its base images.

    Raises:
        ArgosyError: if the project has it already, or Argosy lacks it.
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
