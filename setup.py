"""Builds the wheel with the workflow beside the library, so that an installed Argosy needs no checkout."""

import runpy
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = (
    *("Snakefile", "workflow/rules", "workflow/report"),
    *("profiles", "slurm", "containers", "launchers"),
)
"""What `argosy.shipped` finds; the user's programs are not part of it."""
LEFT_OUT = shutil.ignore_patterns("__pycache__", "workloads")


CHART_SCRIPTS = Path("argosy/report/page/chart_scripts.py")


class BuildWithWorkflow(build_py):
    """The package's modules and data, the scripts of charts, and the workflow in `argosy/checkout/`."""

    def run(self) -> None:
        """Copy what the checkout has, and have vl-convert make the scripts."""
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, "workflow/src")
        charts = runpy.run_path(str("workflow/src" / CHART_SCRIPTS))
        scripts = Path(self.build_lib, CHART_SCRIPTS).with_name(charts["SHIPPED"])
        scripts.write_text(charts["made_scripts"](), encoding="utf-8")
        for part in SHIPPED:
            source, target = Path(part), Path(self.build_lib, "argosy/checkout", part)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=LEFT_OUT, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)


setup(cmdclass={"build_py": BuildWithWorkflow})
