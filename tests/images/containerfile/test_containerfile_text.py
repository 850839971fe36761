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


def test_instructions_know_their_first_lines() -> None:
    found = split("# comment\nFROM a\n\nRUN one \\\n # inside\n && two\nENV A=1\n")
    assert [(each.line, each.name) for each in found] == [(2, "FROM"), (4, "RUN"), (7, "ENV")]
    assert found[1].value == "one  && two"


def test_names_are_read_in_any_case() -> None:
    assert only("run True").name == "RUN"
    assert only("run True").value == "True"


def test_an_instruction_is_shown_in_one_line() -> None:
    found = only("COPY  --link --from=b \\\n   c \\\n   d\n")
    assert found.text == "COPY --link --from=b c d"


def test_the_escape_character_is_a_directive_s() -> None:
    found = split("# escape=`\nRUN one `\n two\nRUN three \\\nRUN four\n")
    assert [each.value for each in found] == ["one  two", "three \\", "four"]
    assert {each.escape for each in found} == {"`"}


def test_a_file_of_windows_is_read_alike() -> None:
    found = split("RUN one \\\r\n # why\r\n\r\n two\r\nENV A=1\r\n")
    assert [(each.line, each.value) for each in found] == [(1, "one  two"), (5, "A=1")]


@pytest.mark.parametrize(
    ("text", "flags", "value"),
    [
        ("RUN --mount=type=tmpfs,target=/a b", (("mount", "type=tmpfs,target=/a"),), "b"),
        ("COPY --link --chmod=755 a b", (("link", ""), ("chmod", "755")), "a b"),
        ("RUN --a='b c' --d=\"it's\" e", (("a", "b c"), ("d", "it's")), "e"),
        ("RUN -- --a", (), "--a"),
        ("RUN echo --a", (), "echo --a"),
    ],
)
def test_flags_stand_before_the_value(
    text: str, flags: tuple[tuple[str, str], ...], value: str
) -> None:
    found = only(text)
    assert (found.flags, found.value) == (flags, value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('["a", "b c"]', ("a", "b c")),
        ("[]", ()),
        ('["a"', None),
        ("['a']", None),
        ("[ -e a ] && b", None),
        ("[NaN]", None),
        ('a ["b"]', None),
    ],
)
def test_a_list_is_one_only_in_json(value: str, words: tuple[str, ...] | None) -> None:
    assert only(f"RUN {value}").json == words


def test_lists_are_for_some_instructions_alone() -> None:
    assert only('EXPOSE ["80"]').json is None


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


def test_here_documents_follow_each_other() -> None:
    found = only("COPY <<a <<b /c/\n1\nb\na\n2\nb\n")
    assert [(each.name, each.content) for each in found.heredocs] == [("a", "1\nb\n"), ("b", "2\n")]


def test_tabs_are_taken_away_where_a_dash_says_so() -> None:
    dash, none = split("RUN <<-A\n\tone\n\t\ttwo\n\tA\nRUN <<A\n\tA\nA\n")
    assert dash.heredocs[0].content == "one\ntwo\n"
    assert none.heredocs[0].content == "\tA\n"


@pytest.mark.parametrize(
    "text",
    [
        "RUN echo '<<EOF'",
        "RUN cat<<EOF",
        "RUN echo $((1 << 2))",
        "RUN cat <<<EOF",
        "RUN echo it's <<EOF",
        'RUN ["cat", "<<EOF"]',
        'COPY ["<<EOF", "/a"]',
        "CMD cat <<EOF",
    ],
)
def test_not_every_pair_of_signs_begins_a_here_document(text: str) -> None:
    found, after = split(f"{text}\nRUN more\n")
    assert found.heredocs == ()
    assert after.value == "more"


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


def test_a_missing_containerfile_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no-such-image" / "Containerfile"
    with pytest.raises(ArgosyError) as problem:
        Source(path).read()
    assert str(problem.value).startswith(f"{path}: there is no Containerfile; create one")


def test_a_containerfile_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "Containerfile"
    path.write_bytes(b"FROM \xff\n")
    with pytest.raises(ArgosyError) as problem:
        Source(path).read()
    assert str(problem.value).startswith(f"{path}: not UTF-8 text")


def test_a_folder_is_no_containerfile(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError) as problem:
        Source(tmp_path).read()
    assert str(problem.value).startswith(f"{tmp_path}: ")
