"""Installs conda packages, then pip requirements, into an image's conda environment.

The image's own Python runs it during the build. Arguments: a JSON file of channels and dependencies, the
environment's folder, a folder for downloads, and optional requirements files.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

_RATTLER = "py-rattler==0.28.0"
_PIP = ("-m", "pip", "install")


async def _install(wanted: dict[str, list[str]], prefix: str, downloads: Path) -> None:
    import rattler

    # Variables such as CONDA_OVERRIDE_CUDA replace hardware that the build machine lacks.
    overrides = rattler.VirtualPackageOverrides.from_env()
    records = await rattler.solve(
        wanted["channels"],
        [rattler.MatchSpec(package) for package in wanted["dependencies"]],
        gateway=rattler.Gateway(downloads / "channels"),
        virtual_packages=rattler.VirtualPackage.detect(overrides),
    )
    for record in records:
        print(record.url)
    await rattler.install(records, prefix, downloads / "packages", show_progress=False)


def _main(listed: str, prefix: str, downloads: str, *requirements: str) -> None:
    if sys.version_info < (3, 10):  # noqa: UP036 - an image may have an older one
        found = ".".join(map(str, sys.version_info[:2]))
        sys.exit(f"conda packages need an image with Python 3.10 or newer; this is {found}")
    if importlib.util.find_spec("pip") is None:
        sys.exit("conda packages need an image with pip: add python3-pip to system")
    if Path(prefix).exists():
        sys.exit(f"this image has conda packages already, in {prefix}")
    with tempfile.TemporaryDirectory() as folder:
        # Wheels only: building from source would need a compiler.
        options = ("--quiet", "--only-binary", ":all:", "--target", folder)
        subprocess.run([sys.executable, *_PIP, *options, _RATTLER], check=True)
        sys.path.insert(0, folder)
        asyncio.run(_install(json.loads(Path(listed).read_text()), prefix, Path(downloads)))
    for path in requirements:
        python = f"{prefix}/bin/python"
        subprocess.run([python, *_PIP, "--requirement", path], check=True)


if __name__ == "__main__":
    try:
        _main(*sys.argv[1:])
    except subprocess.CalledProcessError as problem:
        sys.exit(problem.returncode)  # pip has printed the reason
    except Exception as problem:  # rattler's exceptions share no base class
        sys.exit(f"conda packages cannot be installed: {' '.join(str(problem).split())}")
