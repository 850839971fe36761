"""Checks on the login node, and faults of hosts: clocks, temporary folders, disks."""

import errno
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from node_looks import folder, interface, look
from sites import content

from argosy.doctor import login_checks
from argosy.doctor.examination import Examination
from argosy.doctor.node_checks import check_nodes, questions_of
from argosy.doctor.queue_checks import Place
from argosy.probe.look_jobs import Looked
from argosy.schedulers import find_batch_system
from argosy.site.models import Site
from argosy_images.oci import ImageConfig
from argosy_images.store.lockfile import ImageLock, LockedBase
from argosy_images.store.store import Store


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("partitoin: main", "partitoin: no such key"),
        ("interface: '?'", "fill in interface"),
        ("scheduler: slrum", "there is no `slrum`"),
        ("hardware: {cpu: {architecture: x86_64, cores: four}}", "hardware.cpu.cores: "),
        (
            "{options: {mem: 1G}, unsupported_options: {mem: whole nodes}}",
            "options.mem: forbidden: whole nodes",
        ),
    ],
)
def test_a_wrong_key_is_the_only_finding(tmp_path: Path, changes: str, words: str) -> None:
    assert words in evidence(tmp_path, yaml.safe_dump(content(changes)))


def test_so_is_what_is_not_yaml(tmp_path: Path) -> None:
    assert "is not YAML" in evidence(tmp_path, "a: [\n")


def evidence(project: Path, text: str) -> str:
    """Return what the only finding, which is wrong, says of a site's file."""
    path = project / "slurm/kestrel/site.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    [found] = Examination(project, "kestrel", None, lambda _: None).findings()
    assert (found.check, found.verdict, bool(found.remedy)) == ("site file", "wrong", True)
    assert found.evidence.startswith("slurm/kestrel/site.yaml: ")
    return found.evidence


@pytest.mark.parametrize(
    "text", [None, "config: [site=other]\n", "config: site\n", "- 1\n", "a: [\n"]
)
def test_a_profile_has_to_choose_the_site(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    found = login_checks.profile(tmp_path)
    assert found.verdict == "wrong"
    assert found.remedy.endswith(f": config: [site={tmp_path.name}]")
    (tmp_path / "config.yaml").write_text(f"config: [site={tmp_path.name}]\n")
    assert login_checks.profile(tmp_path).verdict == "ok"


def test_a_template_has_to_be_jinja(tmp_path: Path) -> None:
    system = find_batch_system("local")
    assert login_checks.template(system, tmp_path).verdict == "ok"
    (tmp_path / "job.sbatch.j2").write_text("{% block %}")
    found = login_checks.template(system, tmp_path)
    assert found.verdict == "wrong" and "job.sbatch.j2" in found.evidence


def test_a_store_that_the_first_image_will_make_is_no_fault(tmp_path: Path) -> None:
    """A new project has none: neither this machine nor nodes can miss it."""
    found = [*login_checks.folders(tmp_path, Store(tmp_path / "new/.argosy"))]
    assert [each.verdict for each in found] == ["ok", "ok"]
    asked = questions_of(SITE, tmp_path, tmp_path / "new/.argosy").paths
    assert all(Path(path).exists() for path in {*asked} - {str(tmp_path / "results")})
    [found_store, _] = login_checks.folders(tmp_path, Store(Path("/proc/argosy")))
    assert found_store.verdict == "wrong" and found_store.remedy.endswith("names the store)")


def test_an_image_that_the_store_lacks_is_named(tmp_path: Path) -> None:
    path = ImageLock.path_of(tmp_path, "gone")
    path.parent.mkdir(parents=True)
    lock = ImageLock(
        name="gone",
        digest=f"sha256:{'0' * 64}",
        architecture="x86_64",
        base=LockedBase(reference="a file", source="file", diff_id=f"sha256:{0:064}"),
        steps=(),
        config=ImageConfig(),
    )
    lock.write(path)
    found = login_checks.images(tmp_path, Store(tmp_path / ".argosy"))
    assert found.verdict == "wrong" and "the store lacks gone" in found.evidence


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
