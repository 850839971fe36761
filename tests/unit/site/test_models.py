"""Reading a site's folder."""

from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.site.models import read_site


def test_the_sites_of_this_project_are_valid(project: Path) -> None:
    folders = [path.parent for path in (project / "slurm").glob("*/site.yaml")]
    assert "local" in [folder.name for folder in folders]
    for folder in folders:
        read_site(folder)


def test_a_missing_site_names_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/site.yaml").write_text("scheduler: local\ninterface: lo\n")
    with pytest.raises(ArgosyError, match=r"nowhere/site.yaml: .*; there are here$"):
        read_site(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scheduler: local\n", "interface: this key is missing"),
        ("scheduler: local\ninterface: lo\nqueue: x\n", "queue: no such key; there are scheduler"),
        ("scheduler: pbs\ninterface: lo\n", "scheduler: input should be 'local'"),
        ("a: [\n", "is not YAML"),
    ],
)
def test_bad_sites_are_explained(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "site.yaml").write_text(text)
    with pytest.raises(ArgosyError) as problem:
        read_site(tmp_path)
    assert str(problem.value).startswith(f"{tmp_path}/site.yaml: ")
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)
