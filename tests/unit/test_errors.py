"""Untrusted text in messages and on terminals."""

import unicodedata

import pytest

from argosy_common.errors import ArgosyError, coloured, plain, plain_texts

BAD = [
    "\x1b[2J", "\x1b]0;title\x07", "\x1b]52;c;cm0=\x1b\\", "\x1bPq#0\x1b\\", "\x1bc", "\x1b(0",
    "\x1b[?1049h", "\x9b2J", "\x9d0;x\x9c", "\x07",
    "\x08", "\x7f", "\0", "\x0b", "\u202e", "\u2066", "\u200f", "\u2028",
]  # fmt: skip


@pytest.mark.parametrize("code", BAD)
def test_nothing_that_a_terminal_acts_on_is_left(code: str) -> None:
    for text in (plain(f"a{code}b"), coloured(f"a{code}b")[0], str(ArgosyError(f"a{code}b"))):
        assert all(unicodedata.category(each)[0] != "C" for each in text)
        assert not set(text) & {"\u2028", "\u2029"}


def test_half_a_character_can_be_printed() -> None:
    assert plain("a\udcffb") == "a\ufffdb"
    assert coloured("a\udcffb")[0] == "a\ufffdb"


def test_ordinary_texts_stay() -> None:
    text = "näher 東京 🚀 a\tb\nc"
    assert plain(text) == text
    assert coloured(text) == (text, "")


def test_texts_are_found_in_values() -> None:
    assert plain_texts({"a\x1b[1m": ["\x07b", 1, None]}) == {"a": ["b", 1, None]}


def test_colours_stay_in_what_a_program_printed() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[m\r50 %\n"
    assert coloured(text) == (text, "")


@pytest.mark.parametrize("code", ["\x1b[1;31m", *BAD])
def test_a_code_that_is_cut_is_taken_as_a_whole(code: str) -> None:
    whole = coloured(f"a{code}b")[0]
    for place in range(len(code) + 1):
        first, rest = coloured(f"a{code[:place]}")
        second, left = coloured(rest + f"{code[place:]}b")
        assert (first + second, left) == (whole, "")


def test_an_error_is_one_line_whatever_names_and_programs_say() -> None:
    assert str(ArgosyError("image x cannot be used: a\nfile: E: one\r\nE: two\n")) == (
        "image x cannot be used: a\\nfile: E: one\\nE: two"
    )


def test_an_error_that_is_passed_on_keeps_its_hint() -> None:
    problem = ArgosyError("no gpu", "there are: cpu").at("site.yaml", "digits/a")
    assert problem.lines == "site.yaml: no gpu (digits/a)\nhint: there are: cpu"
