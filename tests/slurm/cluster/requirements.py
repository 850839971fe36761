"""What the machine needs."""

import subprocess

from cluster import packages


def missing() -> str | None:
    """What is missing and cannot be had, in words, or None."""
    tried = subprocess.run(
        ["unshare", "--user", "--map-current-user", "--keep-caps", "--net", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        return f"this user may not make user namespaces: {tried.stderr.strip()}"
    return None if packages.are_installed() else packages.fetch() or None
