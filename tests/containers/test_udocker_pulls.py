"""Why udocker does not pull our images: what it does as of today. A test that fails here is good news."""

import base64
import os
import subprocess
from pathlib import Path

import pytest
from registries import Answer, Layout, Request, between, push, registry, tar_of

from argosy.errors import ArgosyError
from argosy.images import tools
from argosy.images.interchange.importing import import_image, tag_folder
from argosy.images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker]

PASSWORD = "s3cret"
HTPASSWD = "joe:$2y$04$GzB.jGhCEo.aNOmKU5PJ3uuBdhKlE1hQquRrsApywzsYaVM60FT82\n"

RECORDING_CURL = """#!/bin/sh
printf '%s\\n' "$@" >> {record}
exec {curl} "$@"
"""


class Udocker:
    """udocker with a folder of its own and a curl that notes its arguments."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.own = Store(folder / "store")
        self.record = folder / "arguments"
        curl = folder / "curl"
        real = tools.require(store, "curl", print)
        curl.write_text(RECORDING_CURL.format(record=self.record, curl=real))
        curl.chmod(0o755)
        (self.own.udocker / "lib").mkdir(parents=True)
        (self.own.udocker / "bin").mkdir()
        version = (store.udocker / "lib" / "VERSION").read_text()
        (self.own.udocker / "lib" / "VERSION").write_text(version)
        variables = tools.udocker_environment(self.own)
        self.variables = {**variables, "UDOCKER_USE_CURL_EXECUTABLE": str(curl)}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*tools.udocker_command(), *arguments],
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def udocker(project_store: Store, tmp_path: Path) -> Udocker:
    return Udocker(project_store, tmp_path)


def layout(folder: Path) -> Path:
    image = Layout(folder / "layout")
    return image.finish(image.image(tar_of({"file": os.urandom(5000)})))


def test_it_hands_logins_to_curl_where_everybody_reads_them(
    project_store: Store, tmp_path: Path, udocker: Udocker
) -> None:
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    auth = {"htpasswd": {"realm": "x", "path": str(tmp_path / "htpasswd")}}
    with registry(project_store, tmp_path / "registry", auth=auth) as address:
        push(project_store, layout(tmp_path), f"{address}/team/tool:1", login=f"joe:{PASSWORD}")
        here = f"--registry=http://{address}"
        udocker("login", here, "--username=joe", f"--password={PASSWORD}")
        done = udocker("pull", here, "team/tool:1")
    assert done.returncode == 0, done.stdout + done.stderr
    pair = base64.b64encode(f"joe:{PASSWORD}".encode()).decode()
    assert f"Authorization: Basic {pair}" in udocker.record.read_text().splitlines()


def test_it_takes_layers_of_other_bytes(
    project_store: Store, tmp_path: Path, udocker: Udocker
) -> None:
    def spoil(request: Request, number: int, ask: object) -> Answer:
        answer: Answer = ask()  # type: ignore[operator]
        if "/blobs/" in request.path and len(answer.body) > 2000:
            spoiled.append(request.path)
            answer.body = answer.body[:1000] + b"\0\0\0\0" + answer.body[1004:]
        return answer

    spoiled: list[str] = []
    with registry(project_store, tmp_path / "registry") as address:
        push(project_store, layout(tmp_path), f"{address}/team/tool:1")
        with between(address, spoil) as front:
            done = udocker("pull", f"--registry=http://{front.address}", "team/tool:1")
    assert spoiled
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_it_pulled_is_imported_by_its_name_and_checked(
    project_store: Store, tmp_path: Path, udocker: Udocker
) -> None:
    with registry(project_store, tmp_path / "registry") as address:
        push(project_store, layout(tmp_path), f"{address}/team/tool:1")
        done = udocker("pull", f"--registry=http://{address}", "team/tool:1")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tag_folder("udocker:team/tool:1", udocker.variables)
    lock = import_image(Store(tmp_path / "mine"), tmp_path / "project", folder, "taken")
    assert lock.base.reference == "team/tool:1"
    assert (Store(tmp_path / "mine").root(lock.digest) / "file").stat().st_size == 5000
    # udocker takes what comes; whoever imports it does not.
    for layer in (udocker.own.udocker / "layers").iterdir():
        content = layer.read_bytes()
        layer.write_bytes(content[:100] + b"\0" + content[101:])
    with pytest.raises(ArgosyError, match="damaged"):
        import_image(Store(tmp_path / "other"), tmp_path / "project", folder, "taken")
