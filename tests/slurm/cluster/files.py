"""The configuration files of Slurm and munge."""

import os
import secrets
from pathlib import Path

from cluster import settings as known
from cluster.settings import Settings
from cluster.slurm_conf import slurm_conf

_FULL_GPUS = 4
_SLICES = 2
_DEVICES = 16


def write_all(settings: Settings) -> None:
    """Write everything that the daemons read."""
    settings.hosts.write_text(_hosts(settings))
    for number in range(_DEVICES):
        (settings.devices / f"nvidia{number}").symlink_to(os.devnull)
    etc = settings.etc
    (etc / "slurm.conf").write_text(slurm_conf(settings))
    (etc / "gres.conf").write_text(_gres_conf(settings))
    (etc / "mpi.conf").write_text(f"PMIxCliTmpDirBase={settings.scratch}\n")
    (etc / "plugstack.conf").write_text("")
    _write_secret(settings.folder / "munge" / "key", secrets.token_bytes(1024))
    if settings.accounting:
        _write_secret(etc / "slurmdbd.conf", _slurmdbd_conf(settings).encode())


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, as the daemons demand."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def _hosts(settings: Settings) -> str:
    """Names on the fast network have a suffix; without it, only the other network is found."""
    lines = ["127.0.0.1 localhost", f"{known.LOGIN_ADDRESS} login"]
    for number, name in enumerate(settings.names, 1):
        lines += [f"{known.address(number)} {name}", f"{known.fast_address(number)} {name}i"]
    return "\n".join(lines) + "\n"


def _gres_conf(settings: Settings) -> str:
    """GPUs that are none: Slurm hands out and counts them, and opens nothing."""
    if offers := settings.offers:
        lines = [
            line for name in settings.names for line in offers.gres_lines(name, settings.devices)
        ]
        return "\n".join(["AutoDetect=off", *lines]) + "\n"
    kinds = {"a100": _FULL_GPUS, "a100_3g.20gb": _SLICES}
    lines = ["AutoDetect=off"]
    for number, name in enumerate(settings.names, 1):
        kind = "a100" if number <= (settings.nodes + 1) // 2 else "a100_3g.20gb"
        files = f"{settings.devices}/nvidia[0-{kinds[kind] - 1}]"
        lines.append(f"NodeName={name} Name=gpu Type={kind} File={files}")
    return "\n".join(lines) + "\n"


def _slurmdbd_conf(settings: Settings) -> str:
    return f"""\
AuthType=auth/munge
AuthInfo=socket={settings.munge_socket}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={known.ACCOUNTING_PORT}
SlurmUser={settings.user}
LogFile={settings.logs}/slurmdbd.log
PidFile={settings.folder}/pids/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={known.DATABASE_PORT}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""
