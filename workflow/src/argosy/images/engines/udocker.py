"""Containers by udocker, through its command line.

These faults of udocker 1.3.17 are kept away from users:

* Without a terminal its R1 mode loses the exit status and breaks on UTF-8, so it always gets a
  pseudo-terminal, and what the container's first process wrote is the exit status.
* It writes run-time state beside the container or, with `--location`, into the working directory. Each
  call has a private working directory, so any number may run from one root file system.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy.images import tools
from argosy.images.store.store import Store

KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LANG", "UDOCKER_DIR")


def run_command(
    root: Path,
    command: Sequence[str],
    *,
    volumes: Sequence[str],
    environment: Mapping[str, str],
    workdir: str,
    folder: Path,
    read_only: Sequence[str],
) -> list[str | Path]:
    """`udocker run` of a command in `root`; `folder` is private and takes what udocker reads.

    Args:
        read_only: targets of volumes that R1 mounts read-only (see `udocker_main`).
    """
    # Values go through a file: what stands in argv can be read by every user of the machine.
    variables = folder / "environment"
    lines = [f"{name}={value}\n" for name, value in environment.items()]
    variables.write_text("".join(lines), encoding="utf-8")
    return [
        *tools.udocker_command("argosy.images.engines.udocker_main", *read_only, "--"),
        "--quiet",
        f"--config={_read_only_config(folder)}",
        "run",
        f"--location={root}",
        "--containerauth",
        "--user=root",
        "--nobanner",
        f"--workdir={workdir}",
        f"--env-file={variables}",
        *(f"--volume={volume}" for volume in volumes),
        # With --location udocker still takes its first argument as a container's name.
        "root",
        *command,
    ]


def run_environment(store: Store, mode: str, folder: Path) -> dict[str, str]:
    """udocker's settings, and of the user's environment only what udocker itself needs."""
    surroundings = tools.udocker_environment(store)
    runtime = tools.container_runtime(store)
    temporary = folder / "udocker-tmp"
    temporary.mkdir(exist_ok=True)
    return {
        "LANG": "C.UTF-8",
        **{name: surroundings[name] for name in KEPT_VARIABLES if name in surroundings},
        "TERM": "dumb",
        "TMPDIR": str(temporary),
        "UDOCKER_DEFAULT_EXECUTION_MODE": mode,
        **({"UDOCKER_USE_RUNC_EXECUTABLE": str(runtime)} if runtime else {}),
    }


def _read_only_config(folder: Path) -> Path:
    """udocker gives containers CAP_DAC_OVERRIDE, to which a read-only folder is writable; not here."""
    path = folder / "udocker.conf"
    path.write_text("[DEFAULT]\nrunc_capabilities =\n", encoding="utf-8")
    return path
