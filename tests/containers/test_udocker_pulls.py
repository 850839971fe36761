"""Images pulled by the real udocker are imported, and verified, which udocker does not do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from real_udocker import UDOCKER
from registries import Layout, push, registry, tar_of

from argosy_common.errors import ArgosyError
from argosy_images.interchange.importing import import_image, tag_folder
from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker]


def test_what_it_pulled_is_imported_by_its_name_and_checked(
    project_store: Store, tmp_path: Path
) -> None:
    own, image = Store(tmp_path / "store"), Layout(tmp_path / "layout")
    shutil.copytree(project_store.udocker / "lib", own.udocker / "lib")
    variables = {**os.environ, "UDOCKER_DIR": str(own.udocker)}
    layout = image.finish(image.image(tar_of({"file": os.urandom(5000)})))
    with registry(project_store, tmp_path / "registry") as address:
        push(project_store, layout, f"{address}/team/tool:1")
        command = [*UDOCKER, "pull", f"--registry=http://{address}", "team/tool:1"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tag_folder("udocker:team/tool:1", variables)
    lock = import_image(Store(tmp_path / "mine"), tmp_path / "project", folder, "taken")
    assert lock.base.reference == "team/tool:1"
    assert (Store(tmp_path / "mine").root(lock.digest) / "file").stat().st_size == 5000
    # udocker does not verify digests; the import does.
    for layer in (own.udocker / "layers").iterdir():
        content = layer.read_bytes()
        layer.write_bytes(content[:100] + b"\0" + content[101:])
    with pytest.raises(ArgosyError, match="damaged"):
        import_image(Store(tmp_path / "other"), tmp_path / "project", folder, "taken")
