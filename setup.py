"""Builds the wheel with the workflow beside the library, so that an installed Argosy needs no checkout."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("Snakefile", "workflow/rules", "workflow/report", "profiles", "slurm", "containers")
"""What `argosy.shipped` finds; the user's programs are not part of it."""
LEFT_OUT = shutil.ignore_patterns("__pycache__", "workloads")


class BuildWithWorkflow(build_py):
    """The package's modules and data, and the workflow in `argosy/checkout/`."""

    def run(self) -> None:
        """Copy what the checkout has."""
        super().run()
        if self.editable_mode:
            return
        for part in SHIPPED:
            source, target = Path(part), Path(self.build_lib, "argosy/checkout", part)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=LEFT_OUT, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)


setup(cmdclass={"build_py": BuildWithWorkflow})
