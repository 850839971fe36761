"""Counts healthy runs that are ended as hangs, and hangs that are named in time: `make bench-hangs`.

Each run is two agents with a rank each, and the image's torch and Horovod. Words choose among the programs
of `silent_programs.py`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent_job import jobs

from argosy.jobs.launchers import shipped, stall_environment
from argosy.runtime.contract.placeholders import as_format
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(__file__).with_name("silent_programs.py")
SILENT_S = 130
"""Of a healthy program, in seconds; a hang is to be named after less silence."""
PATTERN = r"([0-9.]+) img/s"


def main() -> int:
    """Print a line for each run; 1 when one was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of the names of programs; none: all")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--beside", type=int, default=4, help="runs at the same time")
    arguments = parser.parse_args()
    image = ImageLock.read(ROOT / "resources/images/torch-cpu/image.lock").digest
    [packages] = Store.of_project(ROOT).root(image).glob("opt/venv/lib/python3*/site-packages")
    names = [
        name
        for name in re.findall(
            r"^def (\w+)", PROGRAMS.read_text().partition("# ---- healthy")[2], re.M
        )
        if not arguments.words or any(word in name for word in arguments.words)
    ]
    wrong = 0
    with ThreadPoolExecutor(arguments.beside) as pool:
        runs = [pool.submit(run, name, str(packages)) for name in names * arguments.times]
        for each in runs:
            name, seconds, cause = each.result()
            is_hang, was_ended = (
                name.startswith(("hang_", "torch_hang_")),
                cause.startswith("hang:"),
            )
            silent = float((re.findall(r"for (\d+) s", cause) or [SILENT_S])[0])
            right = was_ended and silent < SILENT_S if is_hang else not was_ended
            wrong += not right
            word = "ok" if right and (is_hang or not cause) else "other" if right else "WRONG"
            print(f"{word:6}{seconds:5.0f} s  {name}: {cause or 'completed'}", flush=True)
    print(f"{len(runs)} runs, {wrong} wrong")
    return 1 if wrong else 0


def run(name: str, packages: str) -> tuple[str, float, str]:
    """Return the program, its seconds from the start, and the cause of its end."""
    launcher = "torch" if name.startswith("torch_") else "horovod"
    more = stall_environment(None) if launcher == "horovod" else {}
    own = {name: as_format(text) for name, text in shipped()[launcher].variables.items()}
    variables = {**own, **more, "PYTHONPATH": packages, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder, jobs(Path(folder)) as make:
        job = make(
            ["/usr/bin/python3", str(PROGRAMS), name, str(SILENT_S)],
            rank_environment=variables,
            throughput=PATTERN if "print(" in source_of(name) else None,
        )
        began = time.monotonic()
        try:
            codes = job.start().wait(SILENT_S + 120)
        except subprocess.TimeoutExpired:
            return name, time.monotonic() - began, "still runs"
        seconds = time.monotonic() - began
        return name, seconds, "" if codes == [0, 0] else job.failures()[0]


def source_of(name: str) -> str:
    """Return the text of a program."""
    return PROGRAMS.read_text().partition(f"def {name}(")[2].partition("\n\n\ndef ")[0]


if __name__ == "__main__":
    sys.exit(main())
