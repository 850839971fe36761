"""A site's file that cannot be used ends the examination with its key and a remedy."""

from pathlib import Path

import pytest
import yaml
from sites import content

from argosy.doctor.examination import Examination


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
