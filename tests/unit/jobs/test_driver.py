"""One driver at a time, and none that a dead one keeps out."""

import subprocess
import sys
from pathlib import Path

import pytest

from argosy.jobs.driver import DriverLock, LockedError

HOLD = """
import sys, time
from pathlib import Path
from argosy.jobs.driver import DriverLock
lock = DriverLock.take(Path(sys.argv[1]), "here")
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_driver_is_told_who_the_first_is(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            LockedError,
            match=rf"another snakemake manages the runs of .* \(process {other.pid} on ",
        ):
            DriverLock.take(tmp_path, "here")
        DriverLock.take(tmp_path, "elsewhere").release()
        other.kill()
        other.wait()
        DriverLock.take(tmp_path, "here").release()


def test_it_can_be_taken_again_when_it_was_given_back(tmp_path: Path) -> None:
    DriverLock.take(tmp_path, "here").release()
    DriverLock.take(tmp_path, "here").release()
