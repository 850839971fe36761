"""Containers by the host's own apptainer, or singularity, on clusters that have that and forbid the rest.

A frozen tree is what it calls a sandbox, which it shows read-only. Where it is installed with its setuid
program it needs no user namespaces. What runs inside has the user's own id.
"""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from argosy_images.engines import runc
from argosy_images.engines.runc import mounts_below

PROGRAMS = ("apptainer", "singularity")
_AT_HOME = 'export HOME="$1"; shift; exec "$@"'


def find() -> Path | None:
    """Return the host's program; nobody else brings it."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return Path(found) if found else None


def command(program: Path, container: runc.Specification) -> list[str | Path]:
    """Return the command that runs the container."""
    # apptainer mounts /sys writable: a control group may be the user's own.
    system = [runc.Mount(Path("/sys"), "/sys", False), *mounts_below(Path("/sys"), "/sys")]
    mounts = [*system, *container.mounts]
    home = container.environment.get("HOME")
    return [
        # The container is killed with apptainer, and apptainer with its parent.
        *("unshare", "--fork", "--kill-child"),
        program,
        "--silent",
        "exec",
        # Its own /dev, processes and variables, and nothing of the home folder.
        *("--containall", "--no-home", "--pwd", container.workdir),
        *(part for mount in mounts for part in ("--mount", _described(mount))),
        container.root,
        # It does not let a variable say where that is.
        *(("/bin/sh", "-c", _AT_HOME, "sh", home) if home else ()),
        *container.arguments,
    ]


def variables(program: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables by which it is told those of the container, which then stand in no argument."""
    prefix = f"{program.name.upper()}ENV_"
    for name, value in environment.items():
        if name != "HOME":
            yield f"{prefix}{name}", value


def _described(mount: runc.Mount) -> str:
    fields = ["type=bind", f"source={mount.source}", f"destination={mount.target}"]
    if not mount.writable:
        fields.append("ro")
    # A line of comma-separated values, in which a quoted one may hold anything.
    return ",".join(f'"{field.replace(chr(34), 2 * chr(34))}"' for field in fields)
