"""The choice of an engine from measurements."""

import os
from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.engines import landlock, runc
from argosy_images.engines.choice import Trial, best, caution, without_log_frame


def test_the_quickest_of_those_that_work() -> None:
    broken = Trial("proot", said="no proot")
    # A start happens once on a node, system calls happen all the time.
    slow_calls = Trial("apptainer", start_s=0.05, calls_s=3.0)
    slow_start = Trial("crun", start_s=0.30, calls_s=0.1)
    assert best([broken, slow_calls, slow_start]) == slow_start
    assert best([slow_start, Trial("runc", start_s=0.1, calls_s=0.1)]).engine == "runc"


def test_what_does_not_isolate_is_never_taken_for_its_speed() -> None:
    isolating = Trial("crun", start_s=9.0, calls_s=9.0)
    quick = Trial("proot", start_s=0.02, calls_s=0.02)
    traced = Trial("proot-ptrace", start_s=0.01, calls_s=0.01)
    assert best([isolating, quick, traced]).engine == "crun"
    # Without an isolating engine the first proot is chosen: trials cannot compare the two modes.
    assert best([Trial("crun", said="forbidden"), quick, traced]).engine == "proot"
    assert best([Trial("proot", said="other paths"), traced]).engine == "proot-ptrace"
    assert caution("crun") == ""


@pytest.mark.parametrize(("version", "said"), [(0, "read and change every file"), (4, "Landlock")])
def test_what_an_engine_does_not_protect_from_depends_on_the_kernel(
    monkeypatch: pytest.MonkeyPatch, version: int, said: str
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: version)
    assert caution("proot").startswith("proot does not isolate: ")
    assert said in caution("proot")


def test_where_none_works_each_has_its_say() -> None:
    trials = [Trial("runc", said="forbidden"), Trial("proot", said="no proot")]
    with pytest.raises(
        ArgosyError, match=r"works on this host \(runc: forbidden; proot: no proot\); ask"
    ):
        best(trials)


def test_who_is_traced_already_is_told_so() -> None:
    trials = [
        Trial("runc", said="unshare failed"),
        Trial("proot", said="proot error: ptrace(TRACEME): Operation not permitted"),
    ]
    with pytest.raises(ArgosyError, match=r"run this command without a tracer \(strace, a"):
        best(trials)
    with pytest.raises(ArgosyError, match=r"or for the package 'proot'"):
        best([Trial("runc", said="unshare failed"), Trial("proot", said="not installed")])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "2026-11-28T03:29:59.806522Z: cgroups in hybrid mode not supported",
            "cgroups in hybrid mode not supported",
        ),
        ("2026-11-28T03:29:59+01:00: no", "no"),
        (
            'time="2026-11-28T03:29:59Z" level=error msg="runc run failed: \\"x\\" is no file"',
            'runc run failed: "x" is no file',
        ),
        ("crun: clone: Operation not permitted", "crun: clone: Operation not permitted"),
    ],
)
def test_what_an_engine_says_is_shown_without_its_logs_frame(line: str, said: str) -> None:
    assert without_log_frame(line) == said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_of_mounts_below_a_folder_those_that_nobody_can_reach_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example FUSE mounts of other users. Mount points have any name, and may be files."""
    table = tmp_path / "mountinfo"
    places = [tmp_path / "data" / name for name in ("folder", "gr\udcfcn", "closed/inner")]
    for place in places:
        place.mkdir(parents=True)
    places.append(tmp_path / "data/file")
    places[-1].touch()
    lines = (f"30 20 0:5 / {place} rw - fuse x rw\n" for place in (tmp_path, *places))
    table.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(runc, "_TABLE", table)
    places[2].parent.chmod(0)
    found = {mount.target for mount in runc.mounts_below(tmp_path / "data", "/data")}
    places[2].parent.chmod(0o700)
    assert found == {"/data/folder", "/data/gr\udcfcn", "/data/file"}
