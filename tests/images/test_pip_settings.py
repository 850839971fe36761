"""Argosy reads pip's settings like pip itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from argosy_images.builder.hostconfig import SECTIONS, pip_settings

SYSTEM = "[global]\ntimeout = 1\nretries = 1\nproxy = one\n"
USER = (
    "[global]\ntimeout = 2\nfind-links =\n    /a\n    https://b.example.org/%20x\n"
    "[install]\nretries = 2\n"
)
CHOSEN = "[global]\ntimeout = 3\nindex_url = https://three.example.org/simple\n"


def as_pip_says() -> dict[str, str]:
    """Return pip's own answer; later sections win, paths of files are left out."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    entries = [line.partition("=") for line in listed.splitlines()]
    found: dict[str, str] = {}
    for section in (*SECTIONS, ":env:"):
        for name, _, value in entries:
            if name.startswith(f"{section}."):
                found[name.removeprefix(f"{section}.")] = ast.literal_eval(value)
    found.pop("config-file", None)
    return found


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, folder, text in (
        # From version 25 on, pip lists files by path, not in order of precedence.
        ("XDG_CONFIG_DIRS", "all/pip", SYSTEM),
        ("HOME", "home/.config/pip", USER),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "pip.conf").write_text(text)
        monkeypatch.setenv(variable, str(tmp_path / folder.partition("/")[0]))
    (tmp_path / "chosen.conf").write_text(CHOSEN)
    for name in ("PIP_CONFIG_FILE", "XDG_CONFIG_HOME", "PIP_FIND_LINKS", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)


def test_files_in_their_order() -> None:
    assert pip_settings()["timeout"] == "2"
    assert pip_settings() == as_pip_says()


def test_a_file_that_a_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "chosen.conf"))
    assert pip_settings()["index-url"] == "https://three.example.org/simple"
    assert pip_settings() == as_pip_says()


def test_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "9")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    assert (pip_settings()["timeout"], pip_settings()["no-cache-dir"]) == ("9", "1")
    assert pip_settings() == as_pip_says()


def test_no_file_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert "timeout" not in pip_settings()
    assert pip_settings() == as_pip_says()


def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "home/.config/pip/pip.conf").write_text("no section\n")
    assert pip_settings()["timeout"] == "1"
