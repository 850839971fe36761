"""Trains by two ranks of Horovod: `two_ranks.py CORE[+CORE],CORE[+CORE] FOLDER PROGRAM WORD...`.

Runs by the Python of an image, which is told by HOROVOD where the image has its self-test. This starts
itself once more for each rank. A rank records its steps in `rank-N.steps` in the folder.
"""

import os
import runpy
import sys
from pathlib import Path


def start():
    """Start the ranks; 0 when both ended well."""
    sys.path.insert(0, os.environ["HOROVOD"])
    import self_test

    self_test.__file__ = __file__
    self_test.TIMEOUT_S = 3600
    # Its ranks get variables, and no words.
    os.environ["WORDS"] = "\n".join(sys.argv[1:])
    return self_test.start_ranks("torch")


def train(rank):
    """Be a rank."""
    cores, folder, program, *words = os.environ["WORDS"].split("\n")
    os.sched_setaffinity(0, {*map(int, cores.split(",")[rank].split("+"))})
    os.environ["ARGOSY_STEPS_FILE"] = str(Path(folder) / f"rank-{rank}.steps")
    sys.argv = [program, *words]
    sys.path[0] = str(Path(program).parent)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    if "HOROVOD_RANK" in os.environ:
        train(int(os.environ["HOROVOD_RANK"]))
    else:
        sys.exit(start())
