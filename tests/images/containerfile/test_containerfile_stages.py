"""The stages of a file: their bases, and the stages that the last one needs."""

import platform
from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.containerfile.stages import (
    Containerfile,
    platform_arguments,
    read_containerfile,
)
from argosy_images.containerfile.text import Source


def read(folder: Path, text: str) -> Containerfile:
    path = folder / "Containerfile"
    path.write_text(text, encoding="utf-8")
    return read_containerfile(Source(path))


def test_a_stage_is_from_and_what_follows(tmp_path: Path) -> None:
    found = read(tmp_path, "FROM a AS One\nRUN b\nRUN c\nFROM scratch\nCOPY d /\n")
    assert [(stage.name, stage.base) for stage in found.stages] == [("one", "a"), ("1", "scratch")]
    assert [[entry.line for entry in stage.entries] for stage in found.stages] == [[2, 3], [5]]


def test_a_stage_may_go_on_from_another(tmp_path: Path) -> None:
    found = read(tmp_path, "FROM a AS one\nFROM ONE\nFROM a\n")
    assert [(stage.base, stage.parent) for stage in found.stages] == [
        ("a", None),
        (None, 0),
        ("a", None),
    ]


def test_a_stage_may_be_called_as_its_own_base(tmp_path: Path) -> None:
    [stage] = read(tmp_path, "FROM debian AS debian\n").stages
    assert (stage.base, stage.parent) == ("debian", None)


def test_stages_are_found_by_name_and_number(tmp_path: Path) -> None:
    found = read(tmp_path, "FROM a AS one\nFROM b AS two\n")
    assert found.find("Two") is found.stages[1]
    assert found.find("0") is found.stages[0]
    assert found.find("7") is None
    assert found.find("debian") is None


def test_only_stages_that_the_last_one_is_made_of_are_needed(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "FROM a AS below\nFROM below AS used\nFROM a AS unused\nFROM a AS mounted\n"
        "FROM a AS last\nCOPY --from=used b c\nCOPY --from=debian b c\n"
        "RUN --mount=from=3,target=/d e\n",
    )
    assert [stage.name for stage in found.needed()] == ["below", "used", "mounted", "last"]


def test_arguments_before_from_are_seen_by_from_alone(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "ARG NAME=debian\nARG TAG=1 IMAGE=$NAME:${TAG}\nARG NONE\nFROM $IMAGE-${NONE:-x}\n",
    )
    [stage] = found.stages
    assert stage.base == "debian:1-x"
    own = {name: stage.arguments[name] for name in stage.arguments if name not in AUTOMATIC}
    assert own == {"NAME": "debian", "TAG": "1", "IMAGE": "debian:1"}


AUTOMATIC = platform_arguments()


def test_the_platform_is_this_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    found = platform_arguments()
    assert found["TARGETPLATFORM"] == found["BUILDPLATFORM"] == "linux/arm64"
    assert (found["TARGETOS"], found["TARGETARCH"]) == ("linux", "arm64")


ALIASES = {"amd64": ["x86_64", "x86-64", "AMD64"]}.get(
    platform_arguments()["TARGETARCH"], ["AArch64"]
)


@pytest.mark.parametrize(
    "asked",
    [
        *("$BUILDPLATFORM", "${TARGETPLATFORM}", "linux/$TARGETARCH", "$TARGETARCH", "Linux"),
        *("linux/$TARGETARCH/v8", *(f"linux/{alias}" for alias in ALIASES), *ALIASES),
    ],
)
def test_a_stage_for_this_machine_s_platform_is_built(tmp_path: Path, asked: str) -> None:
    [stage] = read(tmp_path, f"FROM --platform={asked} a\n").stages
    assert stage.base == "a"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "FROM is missing"),
        ("# a\nARG A\n", 1, "FROM is missing"),
        ("\nRUN a\nFROM b\n", 2, "the first instruction must be FROM (or ARG before it)"),
        ("RUN a\n", 1, "the first instruction must be FROM (or ARG before it)"),
        ("ARG A\nFROM $A\n", 2, "FROM $A is empty: give ARG a value"),
        ('ARG A="${B:?say which}"\nFROM $A\n', 1, "B: say which"),
        (
            "FROM --platform=linux/s390x a\n",
            1,
            "--platform=linux/s390x: this machine only builds for",
        ),
        ("FROM --platform=windows a\n", 1, "--platform=windows: this machine only builds for"),
        ("ARG P\nFROM --platform=$P a\n", 2, "--platform=: this machine only builds for"),
        ("FROM a\nCOPY --from=b c d\nFROM a AS b\n", 2, "the stage b begins at line 3"),
        ("FROM a\nCOPY --from=0 c d\n", 2, "the stage 0 begins at line 1"),
        ("FROM a AS b\nRUN --mount=from=b,target=/c d\n", 2, "the stage b begins at line 1"),
        ("FROM a\nFROM a\nCOPY --from=2 c d\n", 3, "there is no stage 2; the first is 0"),
        ("FROM a\nFROM a\nRUN <<EOF\n", 3, "the here-document <<EOF does not end"),
        ("FROM a\nHELP b\nFROM a\n", 2, "HELP is not supported"),
    ],
)
def test_what_cannot_be_built_is_named_by_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    with pytest.raises(ArgosyError) as problem:
        read(tmp_path, text)
    assert str(problem.value).startswith(f"{tmp_path / 'Containerfile'}:{line}: {message}")
