"""What the machine needs."""

import os
import shutil
import subprocess
from pathlib import Path

_PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "ip": "iproute2",
    "unshare": "util-linux",
}
_FOR_ACCOUNTING = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}


def missing(*, accounting: bool = False) -> str | None:
    """What is missing, in words, or None."""
    wanted = {**_PROGRAMS, **(_FOR_ACCOUNTING if accounting else {})}
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    packages = [package for name, package in wanted.items() if not shutil.which(name, path=path)]
    if packages:
        return f"Debian packages are missing: {' '.join(packages)}"
    if not Path("/etc/slurm").is_dir():
        return "there is no folder /etc/slurm, which Debian's slurm-client makes"
    tried = subprocess.run(
        ["unshare", "--user", "--map-current-user", "--keep-caps", "--net", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        return f"this user may not make user namespaces: {tried.stderr.strip()}"
    return None
