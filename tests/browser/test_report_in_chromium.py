"""The report in a real browser: it draws, it asks for nothing, it has no errors."""

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from study_files import sample_study

from argosy.report import write_report
from argosy.results import collect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("browser") / "local"
    sample_study(results)
    collect(results, results / "tables")
    return write_report(results).html


def opened(page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_it_draws_without_an_error_on_the_console(report: Path, tmp_path: Path) -> None:
    done = opened(report, tmp_path, "--dump-dom")
    assert done.stdout.count("<svg") == 7
    assert done.stdout.rstrip().endswith("</html>")
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []


def test_the_console_is_really_watched(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<script>console.error('seen')</script>")
    done = opened(page, tmp_path / "profile", "--dump-dom")
    assert re.search(r"CONSOLE.*seen", done.stderr)


@pytest.mark.parametrize("scheme", ["0", "1"], ids=["dark", "light"])
@pytest.mark.parametrize("width", [1200, 500])
def test_it_can_be_seen_in_light_and_dark(
    report: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    picture = tmp_path / "report.png"
    opened(
        report,
        tmp_path / "profile",
        f"--window-size={width},1600",
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={picture}",
    )
    header = picture.read_bytes()[:24]
    assert struct.unpack(">II", header[16:24]) == (width, 1600)
    # A blank page of this size is a few kB.
    assert picture.stat().st_size > 50_000


def test_nothing_is_wider_than_a_narrow_window(report: Path, tmp_path: Path) -> None:
    page = report.with_name("measured.html")
    # The page forbids scripts; a copy without that rule measures itself.
    html = re.sub(r"<meta http-equiv[^>]*>", "", report.read_text())
    script = "document.title = 'wide ' + document.documentElement.scrollWidth + ' of ' + innerWidth"
    page.write_text(html.replace("</body>", f"<script>{script}</script></body>"))
    done = opened(page, tmp_path, "--window-size=500,900", "--dump-dom")
    page.unlink()
    found = re.search(r"<title>wide (\d+) of (\d+)</title>", done.stdout)
    assert found
    assert int(found[1]) <= int(found[2])
