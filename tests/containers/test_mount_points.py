"""Folders are mounted at paths that the image lacks, by every engine, and the image stays as it is."""

from pathlib import Path

import pytest
from image_programs import contained

from argosy_common.errors import ArgosyError
from argosy_images import Tools
from argosy_images.engines.models import UNISOLATED_ENGINES, Bind, Container
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

PROGRAM = """
set -e
echo x > /home/results/deep/x
echo x > /opt/mine/x
test -e /usr/local/results
test -e /usr/local/bin
test -L /usr/local/man
/opt/venv/bin/python3 -c 'print("python")'
for path in /home/x /home/results/x /opt/x /opt/venv/x /usr/local/results/x; do
    if (echo x > "$path") 2>/dev/null; then echo "wrote $path"; fi
done
"""


def places(root: Path) -> list[tuple[str, int]]:
    folders = [root, *(root / name for name in ("home", "opt", "usr/local", "opt/venv"))]
    return [
        (str(path), path.lstat().st_mtime_ns) for top in folders for path in [top, *top.iterdir()]
    ]


@pytest.mark.parametrize("engine", ["runc", *UNISOLATED_ENGINES])
def test_a_missing_place_is_made_for_the_container_alone(
    project_store: Store, torch_digest: str, tmp_path: Path, engine: str
) -> None:
    Tools(project_store).fetch_proot(print)
    root = project_store.root(torch_digest)
    before = places(root)
    for name in ("deep", "mine", "seen"):
        (tmp_path / name).mkdir()
    binds = [
        Bind(tmp_path / "deep", "/home/results/deep", writable=True),
        Bind(tmp_path / "mine", "/opt/mine", writable=True),
        Bind(tmp_path / "seen", "/usr/local/results"),
    ]
    inside = Container(root, ["sh", "-c", PROGRAM], binds=binds, engine=engine)
    outcome, output = contained(project_store, inside)
    assert (outcome.status, output) == (0, "python\n")
    assert (tmp_path / "deep/x").is_file() and (tmp_path / "mine/x").is_file()
    assert places(root) == before


def test_what_cannot_be_covered_is_refused(
    project_store: Store, torch_digest: str, tmp_path: Path
) -> None:
    inside = Container(
        project_store.root(torch_digest), ["true"], binds=[Bind(tmp_path, "/results")]
    )
    with pytest.raises(ArgosyError, match=r"no such mount point; .*RUN mkdir -p /results"):
        contained(project_store, inside)
