"""Quotes and variables in words: the table of Docker's reference, and cases that it leaves open."""

import pytest

from argosy_images.containerfile.expansion import (
    ExpansionError,
    expand,
    expand_text,
    split_words,
)

VARIABLES = {"A": "a", "B": "b b", "EMPTY": "", "_x1": "y"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b\tc", ["a", "b", "c"]),
        ("  a  ", ["a"]),
        ('A="b c" D', ['A="b c"', "D"]),
        ("A='b c'\"d e\" f", ["A='b c'\"d e\"", "f"]),
        (r"a\ b c", [r"a\ b", "c"]),
        (r'"a\" b" c', [r'"a\" b"', "c"]),
        (r"'a\' b", [r"'a\'", "b"]),
        ("a ''", ["a", "''"]),
        ("a \\", ["a"]),
        ("", []),
    ],
)
def test_words_end_at_spaces_outside_of_quotes(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_words_know_another_escape_character() -> None:
    assert split_words("a` b c\\ d", escape="`") == ["a` b", "c\\", "d"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("$A", "a"),
        ("${A}", "a"),
        ("x${A}y$A-z", "xaya-z"),
        ("$_x1.$A$A", "y.aa"),
        ("$B", "b b"),
        ("$UNSET", ""),
        ("$1$$", ""),
        ("a$", "a$"),
        ("$%", "$%"),
        (r"\$A", "$A"),
        (r"\\$A", "\\a"),
        (r"a\b", "ab"),
        ("a\\", "a"),
        ("'$A \"'", '$A "'),
        ('"$A \'"', "a '"),
        (r'"\$A \" \\ \n"', '$A " \\ \\n'),
        (r"'a\'", "a\\"),
        ("\"\"''", ""),
    ],
)
def test_quotes_go_and_variables_are_replaced(word: str, expected: str) -> None:
    assert expand(word, VARIABLES) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("${A:-x}", "a"),
        ("${EMPTY:-x}", "x"),
        ("${UNSET:-x}", "x"),
        ("${A-x}", "a"),
        ("${EMPTY-x}", ""),
        ("${UNSET-x}", "x"),
        ("${A:+x}", "x"),
        ("${EMPTY:+x}", ""),
        ("${UNSET:+x}", ""),
        ("${A+x}", "x"),
        ("${EMPTY+x}", "x"),
        ("${UNSET+x}", ""),
        ("${A:?x}", "a"),
        ("${EMPTY?x}", ""),
        ("${UNSET:-$A}", "a"),
        ("${UNSET:-${EMPTY:-${A}}}z", "az"),
        ("${UNSET:-'}'\"$A\"}", "}a"),
        (r"${UNSET:-\}}", "}"),
        ("${UNSET:-{}", "{"),
        ('"${UNSET:-"x y"}"', "x y"),
        ("${UNSET:-}", ""),
    ],
)
def test_operators_substitute(word: str, expected: str) -> None:
    assert expand(word, VARIABLES) == expected


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("${UNSET:?give me one}", "UNSET: give me one"),
        ("${EMPTY:?}", "EMPTY: is not set"),
        ("${UNSET?}", "UNSET: is not set"),
        ("x${}y", "`${}y` names no variable"),
        ("${:-a}", "`${:-a}` names no variable"),
        ("${A%x}", "`${A%x}`: unknown operator; there are"),
        ("${A/a/b}", "`${A/a/b}`: unknown operator; there are"),
        ("${A:a}", "`${A:a}`: unknown operator; there are"),
        ("${A", "`${A` has no closing }"),
        ("${A:-b", "`${A:-b` has no closing }"),
        ("'a", "`'a` has no closing '"),
        ('"a', '`"a` has no closing "'),
    ],
)
def test_what_cannot_be_expanded_is_told(word: str, message: str) -> None:
    with pytest.raises(ExpansionError) as problem:
        expand(word, VARIABLES)
    assert str(problem.value).startswith(message)


def test_an_open_quote_is_told_when_words_are_split() -> None:
    with pytest.raises(ExpansionError, match="`A=it's` has no closing '"):
        split_words("A=it's")


def test_a_long_text_is_told_in_one_short_line() -> None:
    with pytest.raises(ExpansionError) as problem:
        expand_text("line\n" * 50 + "${A", VARIABLES)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 100


def test_in_the_text_of_a_file_quotes_mean_nothing() -> None:
    text = "it's \"$A\"\n'${UNSET:-x}' \\$A \\\\n\n"
    assert expand_text(text, VARIABLES) == "it's \"a\"\n'x' $A \\n\n"
