"""Splitting of a Containerfile into instructions; test_containerfile_oracle.py compares with BuildKit."""

from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.containerfile.text import Instruction, Source, split_instructions

SOURCE = Source(Path("image/Containerfile"))


def split(text: str) -> list[Instruction]:
    return split_instructions(SOURCE, text)


def only(text: str) -> Instruction:
    [found] = split(text)
    return found


def test_an_instruction_is_shown_in_one_line() -> None:
    found = only("COPY  --link --from=b \\\n   c \\\n   d\n")
    assert found.text == "COPY --link --from=b c d"


def test_the_escape_character_is_a_directive_s() -> None:
    found = split("# escape=`\nRUN one `\n two\nRUN three \\\nRUN four\n")
    assert [each.value for each in found] == ["one  two", "three \\", "four"]
    assert {each.escape for each in found} == {"`"}


@pytest.mark.parametrize(
    ("begin", "quoted"),
    [("<<EOF", False), ("<<-EOF", False), ("<<'EOF'", True), ('<<"EOF"', True), ("<<\\EOF", True)],
)
def test_a_here_document_is_what_stands_before_its_name(begin: str, quoted: bool) -> None:
    run, after = split(f"RUN cat {begin} > b\none $A\n\n# two \\\nEOF\nRUN three\n")
    [heredoc] = run.heredocs
    assert (heredoc.name, heredoc.content) == ("EOF", "one $A\n\n# two \\\n")
    assert (heredoc.word, heredoc.quoted) == (begin, quoted)
    assert run.value == f"cat {begin} > b"
    assert (after.line, after.value) == (6, "three")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("FROM a\nRUN <<EOF\none\n EOF\n", 2, "the here-document <<EOF does not end"),
        ("FROM a\n\nRUN [1]\n", 3, "[1]: a list may contain only strings in double quotes"),
        ("# syntax=a\n# escape=x\nFROM a\n", 2, "escape=x: must be \\ or `"),
        ("FROM a\n \\\n", 2, "nothing follows this \\: remove it"),
    ],
)
def test_what_cannot_be_split_is_named_by_line(text: str, line: int, message: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        split(text)
    assert str(problem.value).startswith(f"image/Containerfile:{line}: {message}")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "Containerfile"
    path.write_bytes(b"\xef\xbb\xbfFROM a\r\n")
    assert Source(path).read() == "FROM a\r\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no Containerfile; create one"),
        (b"FROM \xff\n", "not UTF-8 text"),
        ("a folder", ""),
    ],
)
def test_an_unreadable_containerfile_is_named(
    tmp_path: Path, content: bytes | str | None, message: str
) -> None:
    path = tmp_path / "Containerfile"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    with pytest.raises(ArgosyError) as problem:
        Source(path).read()
    assert str(problem.value).startswith(f"{path}: {message}")
