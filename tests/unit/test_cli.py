"""The command line's errors: one line and a status, never a traceback."""

import errno
import os
from pathlib import Path

import pytest
from command_line import Argosy

from argosy import cli


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("image", "build", "none"), "containers/none/Containerfile: there is no such file"),
        (("image", "import", "oras://x/y", "y"), "oras://x/y: No such file or directory"),
        (("summary", "results/local"), "results/local: there are no such results"),
        (("report", "results/local"), "results/local: there are no such results"),
        (("report", "--from-tables", "results/local"), "results/local: there are no such results"),
        (("failures", "nowhere"), "results/nowhere: there are no such results"),
        (("bundle", "x.zip", "other"), "results/other: there are no such results"),
        (("predict", "results/local", "digits"), "results/local: there are no such results"),
        (("predict", "results", "digits", "--nodes", "1,x"), "--nodes 1,x: give node counts"),
        (
            ("render", "local", "--study", "none", "--runs", "runs.txt", "--output", "study.json"),
            "none: cannot be read (FileNotFoundError",
        ),
    ],
)
def test_a_mistake_is_one_line_and_its_hint(
    tmp_path: Path, argosy: Argosy, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "slurm").mkdir()
    done = argosy(*arguments, folder=tmp_path)
    assert done.status == 2
    line, *hint = done.err.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert len(hint) <= 1 and all(each.startswith("hint: ") for each in hint)
    assert done.out == ""


NO_FOLDER = "No usable temporary directory found in ['/tmp']"


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x"),
            "error: No space left on device (at /x): free space, for example with `argosy image prune`, "
            "and try again; finished parts are kept\n",
        ),
        (
            OSError(errno.EROFS, os.strerror(errno.EROFS), "/home/me/.x"),
            "error: /home/me/.x: Read-only file system\n",
        ),
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "results/x"),
            "error: results/x: Permission denied\n",
        ),
        (
            FileNotFoundError(errno.ENOENT, NO_FOLDER),
            f"error: {NO_FOLDER}: set TMPDIR to a writable folder\n",
        ),
    ],
)
def test_what_the_site_can_mend_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: OSError,
    expected: str,
) -> None:
    def fail(**_: object) -> None:
        raise problem

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    assert leaving.value.code == 2
    assert capsys.readouterr().err == expected
