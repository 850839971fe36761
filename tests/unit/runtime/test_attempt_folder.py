"""Where the host's word on an incarnation lies, whatever a program puts among its records."""

import itertools
from pathlib import Path

import pytest

from argosy import files
from argosy.runtime import host_files

KINDS = ("claim.json", "verdict.json")


@pytest.mark.parametrize(
    ("attempt", "claim", "verdict"), [*itertools.product((True, False), repeat=3)]
)
def test_both_sides_look_in_one_place(
    tmp_path: Path, attempt: bool, claim: bool, verdict: bool
) -> None:
    records, own = tmp_path / "records/7.0", tmp_path / "attempts/7.0"
    records.mkdir(parents=True)
    if attempt:
        own.mkdir(parents=True)
    for name, there in zip(KINDS, (claim, verdict), strict=True):
        if there:
            # A link that leads nowhere is something, too.
            (records / name).symlink_to("nowhere")
    found = files.attempt_folder(tmp_path, "7.0")
    assert str(found) == host_files.attempt_folder(str(tmp_path), "7.0")
    assert found == (records if not attempt and (claim or verdict) else own)
