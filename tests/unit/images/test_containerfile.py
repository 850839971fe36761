"""Reading Containerfiles, and refusing by file and line what cannot be built."""

from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.images.containerfile import Instruction, command, pairs, read_containerfile, words


def write(folder: Path, text: str) -> Path:
    path = folder / "Containerfile"
    path.write_text(text)
    return path


def test_instructions_know_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "# comment\nFROM a\n\nRUN one \\\n # inside\n && two\nENV A=1\n")
    found = read_containerfile(path).instructions
    assert [(entry.line, entry.name) for entry in found] == [(2, "FROM"), (4, "RUN"), (7, "ENV")]
    assert command(found[1]) == ["/bin/sh", "-c", "one  && two"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("FROM a\nHEALTHCHECK NONE\n", 2, "HEALTHCHECK is not supported"),
        ("FROM a\nRUN <<EOF\necho\nEOF\n", 2, "here-documents are not supported"),
        ("FROM a\nRUN --mount=type=cache,target=/x true\n", 2, "RUN --mount=type=cache"),
        ("FROM a AS b\nFROM b\n", 2, "several stages are not supported"),
        ("RUN true\nFROM a\n", 1, "the first instruction must be FROM"),
        ("", 1, "the first instruction must be FROM"),
    ],
)
def test_what_cannot_be_built_is_named_by_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ArgosyError) as problem:
        read_containerfile(path)
    assert str(problem.value).startswith(f"{path}:{line}: {message}")
    assert "\n" not in str(problem.value)


def test_a_missing_image_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match="no-such-image/Containerfile: there is no Containerfile"):
        read_containerfile(tmp_path / "no-such-image" / "Containerfile")


def test_env_pairs_are_quoted_and_expanded_as_docker_does() -> None:
    entry = Instruction(1, "ENV", 'A=1 B="two words" C=$X/bin D=${X}')
    assert pairs(entry, {"X": "/x"}) == {"A": "1", "B": "two words", "C": "/x/bin", "D": "/x"}
    assert pairs(Instruction(1, "ENV", "OLD form of it"), {}) == {"OLD": "form of it"}


def test_words_and_exec_form() -> None:
    assert words('a "b c" $X', {"X": "x y"}) == ["a", "b c", "x y"]
    assert command(Instruction(1, "RUN", '["a", "b c"]')) == ["a", "b c"]
    assert command(Instruction(1, "RUN", "[ -e x ] && y")) == ["/bin/sh", "-c", "[ -e x ] && y"]
