"""The scripts that draw charts: made once in an environment, and alike wherever they are made."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.report.page.chart_scripts import chart_scripts

PRINTED = """
import hashlib, sysconfig, sys
sysconfig.get_path = lambda name: sys.argv[1]
from argosy.report.page.chart_scripts import chart_scripts
print(hashlib.sha256(chart_scripts().encode()).hexdigest())
"""


def digest_made(environment: Path) -> str:
    """The digest of the scripts as another process makes them for an `environment`."""
    command = [sys.executable, "-c", PRINTED, str(environment)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_they_are_kept_and_the_same_everywhere(tmp_path: Path) -> None:
    here = hashlib.sha256(chart_scripts().encode()).hexdigest()
    assert digest_made(tmp_path) == here
    [kept] = (tmp_path / "share/argosy").iterdir()
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == here
    kept.write_text("kept")
    assert digest_made(tmp_path) == hashlib.sha256(b"kept").hexdigest()


@pytest.mark.slow
def test_where_nothing_can_be_written_they_are_made_again(tmp_path: Path) -> None:
    # A file, where a folder would have to be: not even root can write below it.
    (tmp_path / "share").write_text("")
    assert digest_made(tmp_path) == hashlib.sha256(chart_scripts().encode()).hexdigest()


def test_they_can_stand_in_a_page() -> None:
    scripts = chart_scripts()
    assert "window.vegaEmbed=" in scripts
    for end in ("</script", "<!--", "\r"):
        assert end not in scripts
