"""No engine and no start of a container changes a frozen tree, which all runs share."""

from pathlib import Path

import pytest
from image_programs import contained
from trees import describe_tree

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images import tools
from argosy_images.engines.models import UNISOLATED_ENGINES, Bind, Container
from argosy_images.engines.trusted_root import trusted_root
from argosy_images.rootfs.freeze import make_frozen
from argosy_images.rootfs.layers import Layer
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

ENGINES = ("runc", *UNISOLATED_ENGINES)


@pytest.fixture(scope="module")
def layer(project_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Layer:
    """Return a layer with the host's shell and dangling links, but without /etc/passwd."""
    diff = tmp_path_factory.mktemp("layer") / "diff"
    with trusted_root(project_store) as root:
        for path in root.rglob("*"):
            if path.is_file() and path.name not in ("passwd", "group"):
                target = diff / path.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
                target.chmod(0o755)
    (diff / "link").symlink_to("/made/by/link")
    (diff / "etc").mkdir(exist_ok=True)
    (diff / "inner").symlink_to("/usr")
    (diff / "scratch").symlink_to("tmp")
    (diff / "tmp").symlink_to("/var/tmp")
    return Layer(diff)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, project_store: Store) -> str:
    tools.Tools(project_store).fetch_proot(print)
    return str(request.param)


def start(store: Store, root: Path, engine: str, workdir: str, *binds: Bind) -> str:
    command = ["/bin/sh", "-c", "pwd -P; : > here && echo writable"]
    return contained(store, Container(root, command, workdir=workdir, engine=engine, binds=binds))[
        1
    ]


@pytest.mark.parametrize("workdir", ["/srv/app", "/link", "/scratch/own", "/job/a"])
def test_every_engine_starts_where_the_image_says(
    project_store: Store, layer: Layer, tmp_path: Path, engine: str, workdir: str
) -> None:
    root, job = tmp_path / "root", tmp_path / "job"
    make_frozen([layer], root, workdir)
    (job / "a").mkdir(parents=True)
    before = describe_tree(root)
    said = start(project_store, root, engine, workdir, Bind(job, "/job"))
    assert describe_tree(root) == before
    links = {"/link": "/made/by/link", "/scratch/own": "/var/tmp/own"}
    expected = links.get(workdir, workdir)
    lines = said.splitlines()
    assert lines[0] == expected, said
    assert ("writable" in lines) is workdir.startswith("/scratch")


@pytest.mark.parametrize("bad", ["workdir", "bind"])
def test_what_a_tree_lacks_is_made_by_no_engine(
    project_store: Store, layer: Layer, tmp_path: Path, engine: str, bad: str
) -> None:
    """Earlier versions froze such trees. /inner is a link to a folder that the host has."""
    root = tmp_path / "root"
    make_frozen([layer], root)
    before = describe_tree(root)
    binds = [Bind(tmp_path, "/inner/share")] if bad == "bind" else []
    workdir = "/srv/app" if bad == "workdir" else "/"
    why = r"^/(srv/app: |inner/share: .*no such mount point; .*RUN mkdir -p /inner/share)"
    with pytest.raises(ArgosyError, match=why):
        start(project_store, root, engine, workdir, *binds)
    assert describe_tree(root) == before
    remove_tree(root)


def test_data_is_seen_below_data_though_no_image_has_the_folders(
    project_store: Store, layer: Layer, tmp_path: Path, engine: str
) -> None:
    root, data = tmp_path / "root", tmp_path / "data"
    make_frozen([layer], root)
    (data / "weather").mkdir(parents=True)
    (data / "weather/1981.nc").write_text("warm\n")
    (data / "link").symlink_to("weather")
    (data / "kept").mkdir()
    before = describe_tree(root)
    binds = [
        Bind(data / "link", "/data/weather"),
        Bind(data / "weather/1981.nc", "/data/of/file"),
        Bind(data / "kept", "/data/of/kept", writable=True),
    ]
    words = "for each in weather/1981.nc of/file; do read -r line < /data/$each; echo $line; done;"
    words += "for each in weather of of/kept; do (: > /data/$each/new) && echo wrote $each; done"
    command = ["/bin/sh", "-c", words]
    asked = Container(root, command, engine=engine, binds=binds)
    said = contained(project_store, asked)[1].splitlines()
    assert said[:2] == ["warm", "warm"]
    assert [line for line in said if line.startswith("wrote")] == ["wrote of/kept"], said
    assert describe_tree(root) == before
    assert (data / "kept/new").exists()
    assert [path.name for path in (data / "weather").iterdir()] == ["1981.nc"]


def test_an_image_s_own_files_beside_mounts_are_not_hidden(
    project_store: Store, layer: Layer, tmp_path: Path, engine: str
) -> None:
    root = tmp_path / "root"
    for name in ("data/own/hidden", "data/other/kept", "data/deep/er/kept", "opt/own/kept"):
        (layer.diff / name).mkdir(parents=True)
    (layer.diff / "opt/link").symlink_to("own")
    make_frozen([layer], root)
    before = describe_tree(root)
    mounted = tmp_path / "mounted"
    (mounted / "new").mkdir(parents=True)
    targets = ("/data/own", "/data/x", "/data/deep/er/y", "/data/a/b", "/opt/mine")
    binds = [Bind(mounted, target) for target in targets]
    words = "cd /data; echo own/* other/* x/* deep/er/* deep/er/y/* a/b/*; cd /opt; echo mine/* "
    words += "link/*; [ -L link ] && echo link; (: > /opt/x) 2> /dev/null && echo written"
    asked = Container(root, ["/bin/sh", "-c", words], engine=engine, binds=binds)
    said = contained(project_store, asked)[1].split()
    expected = "own/new other/kept x/new deep/er/kept deep/er/y deep/er/y/new a/b/new "
    expected += "mine/new link/kept link"
    assert sorted(said) == sorted(expected.split())
    assert describe_tree(root) == before
    for name in ("data", "opt"):
        remove_tree(layer.diff / name)
    remove_tree(root)
