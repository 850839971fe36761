"""image.lock: its values name folders and enter scripts, so they must match patterns."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.oci import ImageConfig
from argosy_images.store.lockfile import ImageLock, LockedBase, LockedStep

DIGEST = f"sha256:{1:064x}"
LOCK = ImageLock(
    name="torch-cpu",
    digest=DIGEST,
    architecture="amd64",
    base=LockedBase(reference="debian", source="archive", diff_id=DIGEST),
    steps=(LockedStep(instruction="RUN true", diff_id=None),),
    config=ImageConfig(),
)


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    LOCK.write(tmp_path / "image.lock")
    assert ImageLock.read(tmp_path / "image.lock") == LOCK


@pytest.mark.parametrize("evil", ["x$(touch canary)", "../../..", f"{DIGEST}\n--x", DIGEST.upper()])
@pytest.mark.parametrize("keys", [("digest",), ("base", "diff_id"), ("steps", 0, "diff_id")])
def test_a_digest_is_nothing_else(tmp_path: Path, keys: tuple[Any, ...], evil: str) -> None:
    refused(tmp_path, keys, evil)


@pytest.mark.parametrize("evil", ["../x", "a b", "$(touch canary)", "", "-x", "x\n", "x" * 300])
def test_a_name_names_a_folder(tmp_path: Path, evil: str) -> None:
    refused(tmp_path, ("name",), evil)


def refused(folder: Path, keys: tuple[Any, ...], value: str) -> None:
    content = json.loads(LOCK.model_dump_json())
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path = folder / "image.lock"
    path.write_text(json.dumps(content))
    with pytest.raises(ArgosyError, match=".".join(map(str, keys))):
        ImageLock.read(path)
