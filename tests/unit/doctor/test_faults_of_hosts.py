"""Faults that no test cluster on one machine can have: clocks that differ, quotas, disks that are full."""

import errno
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from node_looks import folder, interface, look

from argosy.doctor import login_checks
from argosy.doctor.node_checks import check_nodes
from argosy.doctor.queue_checks import Place
from argosy.probe.look_jobs import Looked
from argosy.site.models import Site
from argosy_images.store.store import Store

SITE = Site.model_validate(
    {
        "scheduler": "slurm",
        "interface": "ib0",
        "hardware": {"cpu": {"architecture": "x86_64", "cores": 4}},
        "queues": {"main": {"hardware": ["cpu"], "limits": [{"nodes": 2}]}},
    }
)


@pytest.mark.parametrize(
    ("ahead_s", "verdict"), [(-70.0, "warning"), (70.0, "warning"), (0.4, "ok"), (59.0, "ok")]
)
def test_clocks_that_differ(tmp_path: Path, ahead_s: float, verdict: str) -> None:
    met = {"ib0": {"bytes_per_s": 1e9, "clock_ahead_s": ahead_s, "clock_within_s": 0.1}}
    seen = {"scratch": [folder("/tmp")], "interfaces": [interface("ib0")]}
    meeting = {"interfaces": met, "peers": {"n1": {"ib0": ""}}}
    looks = (look(**seen), look(node="n2", number=1, meeting=meeting, **seen))
    looked = Looked("main-cpu", looks)
    place = Place(SITE, "main", "cpu", tmp_path)
    found = {each.check: each for each in check_nodes("slurm/x/site.yaml", place, looked, "ib0")}
    assert found["clocks"].verdict == verdict
    # Of what no node has answered nothing is said to be well.
    assert found["environment"].verdict == "wrong" or found["engine"].verdict == "unknown"
    if verdict == "warning":
        assert "the clocks of n1 and n2 differ by 70 s" in found["clocks"].evidence


@pytest.mark.parametrize(("length", "verdict"), [(53, "ok"), (54, "warning"), (200, "warning")])
def test_a_tmpdir_whose_sockets_have_too_long_paths(
    tmp_path: Path, length: int, verdict: str
) -> None:
    path = "/" + (length - 1) * "x"
    site = SITE.model_copy(update={"tmpdir": path})
    seen = look(
        scratch=[folder(path, free_mib=9000)], interfaces=[interface("ib0")], node="n1.cluster"
    )
    place = Place(site, "main", "cpu", tmp_path)
    looked = Looked("main-cpu", (seen,))
    found = {each.check: each for each in check_nodes("slurm/x/site.yaml", place, looked, "ib0")}
    assert found["tmpdir"].verdict == verdict
    # A listener of multiprocessing fits or not, as the verdict says.
    job = Path(path) / "argosy-node.n1.abcdef" / "pymp-abcdefgh" / "listener-abcdefgh"
    with socket.socket(socket.AF_UNIX) as made, pytest.raises(OSError) as refused:
        made.bind(str(job))
    assert ("AF_UNIX path too long" in str(refused.value)) == (verdict != "ok")


@pytest.mark.parametrize("code", [errno.EDQUOT, errno.ENOSPC, errno.EROFS])
def test_a_quota_that_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "store").mkdir()
    whole = tempfile.TemporaryFile

    def refused(*, dir: Path) -> Any:
        if dir == tmp_path / "store":
            raise OSError(code, os.strerror(code))
        return whole(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    bad, good = login_checks.folders(tmp_path, Store(tmp_path / "store"))
    assert (bad.check, bad.verdict, good.verdict) == ("store", "wrong", "ok")
    assert os.strerror(code) in bad.evidence
    assert "ARGOSY_STORE names the store" in bad.remedy


def test_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    real = os.statvfs(tmp_path)
    little = os.statvfs_result((real.f_bsize, 4096, 10**9, 100, 100, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: little)
    found = [*login_checks.folders(tmp_path, Store(tmp_path / "store"))]
    assert {each.verdict for each in found} == {"warning"}
    assert "has 400 KiB free" in found[0].evidence
