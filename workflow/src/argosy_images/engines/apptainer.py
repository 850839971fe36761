"""Run containers with the host's apptainer or singularity, on clusters that forbid other engines.

Apptainer mounts a frozen tree, which it calls a sandbox, read-only. With its setuid program it needs no
user namespaces. Programs inside run with the user's own id.
"""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from argosy_images.engines import runc

PROGRAMS = ("apptainer", "singularity")
_AT_HOME = 'export HOME="$1"; shift; exec "$@"'


def find() -> Path | None:
    """Find apptainer or singularity on the host: Argosy ships neither."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return Path(found) if found else None


def command(program: Path, container: runc.Specification) -> list[str | Path]:
    """Return the command that runs the container."""
    # apptainer mounts /sys writable.
    mounts = [*runc.system_mounts(), *container.mounts]
    home = container.environment.get("HOME")
    return [
        # The container is killed with apptainer, and apptainer with its parent.
        *("unshare", "--fork", "--kill-child"),
        program,
        "--silent",
        "exec",
        # A private /dev, process list and environment, without the home folder.
        *("--containall", "--no-home", "--pwd", container.workdir),
        *(part for mount in mounts for part in ("--mount", _described(mount))),
        container.root,
        # apptainer does not accept HOME as a variable.
        *(("/bin/sh", "-c", _AT_HOME, "sh", home) if home else ()),
        *container.arguments,
    ]


def variables(program: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield apptainer's variables that set the container's, so that none appears in an argument."""
    prefix = f"{program.name.upper()}ENV_"
    for name, value in environment.items():
        if name != "HOME":
            yield f"{prefix}{name}", value


def _described(mount: runc.Mount) -> str:
    fields = ["type=bind", f"source={mount.source}", f"destination={mount.target}"]
    if not mount.writable:
        fields.append("ro")
    # apptainer parses this as CSV: quoted values may contain any character.
    return ",".join(f'"{field.replace(chr(34), 2 * chr(34))}"' for field in fields)
