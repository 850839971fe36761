"""Errors about a base that cannot be fetched."""

from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.builder import fetching
from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store
from argosy_images.tools import Tools


@pytest.mark.parametrize(
    ("lines", "line", "reference"),
    [
        ("FROM registry.example.org/team/tool:1", 1, "registry.example.org/team/tool:1"),
        ("# why\n\nFROM tool AS one\nFROM scratch\nCOPY --from=one / /", 3, "tool"),
        ("FROM scratch\nCOPY --from=tool:2 / /", 2, "tool:2"),
    ],
)
def test_file_line_reference_and_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, line: int, reference: str
) -> None:
    def fetch(*_: object) -> None:
        raise ArgosyError("no network")

    monkeypatch.setattr(fetching, "fetch", fetch)
    monkeypatch.setattr(Tools, "require_runtime", lambda *_: Path("runc"))
    folder = tmp_path / "containers" / "mine"
    folder.mkdir(parents=True)
    (folder / "Containerfile").write_text(f"{lines}\n")

    def said() -> str:
        with pytest.raises(ArgosyError) as problem:
            build_image(Store(tmp_path / "store"), folder, tmp_path / "lock", tmp_path / "log")
        return str(problem.value)

    begin = f"{folder}/Containerfile:{line}: {reference}: no network; "
    assert said().startswith(f"{begin}if it is out of reach here, build the image elsewhere")
    assert "argosy image import" in said()
    (tmp_path / "containers" / "tool").mkdir()
    assert said() == f"{begin}FROM localhost/tool would be the image of containers/tool"


@pytest.mark.parametrize("other", ["FROM tool", "FROM tool AS other", "# first\nFROM tool AS one"])
def test_a_base_that_several_images_name_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    asked: list[str] = []

    def fetch(_: Store, reference: str, *__: object) -> None:
        asked.append(reference)
        raise ArgosyError("no network")

    monkeypatch.setattr(fetching, "fetch", fetch)
    monkeypatch.setattr(Tools, "require_runtime", lambda *_: Path("runc"))
    mine = "FROM tool AS one\nCOPY --from=localhost/other / /\nFROM one\n"
    for name, lines in {"mine": mine, "other": f"{other}\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "Containerfile").write_text(lines)
    with pytest.raises(ArgosyError, match="no network"):
        build_image(
            Store(tmp_path / "store"), tmp_path / "mine", tmp_path / "lock", tmp_path / "log"
        )
    assert asked == ["tool"]


@pytest.mark.parametrize(
    ("content", "named", "why"),
    [
        (b"text", "", "damaged or cut off, or not an archive: "),
        (bytes(32) + b"SIF_MAGIC\0", ":one", "a SIF file holds one image; leave out :one"),
    ],
)
def test_why_a_file_is_no_base_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, named: str, why: str
) -> None:
    monkeypatch.setattr(Tools, "require_runtime", lambda *_: Path("runc"))
    file = tmp_path / "base.sif"
    file.write_bytes(content)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/Containerfile").write_text(f"FROM file://{file}{named}\n")
    with pytest.raises(ArgosyError) as told:
        build_image(
            Store(tmp_path / "store"), tmp_path / "mine", tmp_path / "lock", tmp_path / "log"
        )
    assert str(told.value).startswith(f"{tmp_path}/mine/Containerfile:1: {file}: {why}")
