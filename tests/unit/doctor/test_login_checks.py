"""Faults that the login node sees without asking the scheduler."""

from pathlib import Path

import pytest
import yaml
from sites import content

from argosy.doctor import login_checks
from argosy.doctor.examination import Examination
from argosy.schedulers import find_batch_system
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
    assert found.remedy == f"write into it: config: [site={tmp_path.name}]"
    (tmp_path / "config.yaml").write_text(f"config: [site={tmp_path.name}]\n")
    assert login_checks.profile(tmp_path).verdict == "ok"


def test_a_template_has_to_be_jinja(tmp_path: Path) -> None:
    system = find_batch_system("local")
    assert login_checks.template(system, tmp_path).verdict == "ok"
    (tmp_path / "job.sbatch.j2").write_text("{% block %}")
    found = login_checks.template(system, tmp_path)
    assert found.verdict == "wrong" and "job.sbatch.j2" in found.evidence


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
