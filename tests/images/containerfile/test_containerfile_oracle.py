"""Argosy's parser of Containerfiles against BuildKit's, on plain and random files."""

import platform
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_common.errors import ArgosyError
from argosy_images.containerfile.text import Instruction, Source, split_instructions

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="BuildKit's parser comes for x86_64 alone"
)

SHELL_FORMS = ("RUN", "CMD", "ENTRYPOINT")

Facts = dict[str, Any]


def ours(text: str) -> list[Facts]:
    found = split_instructions(Source(Path("Containerfile")), text)
    return [_facts_of_ours(instruction) for instruction in found]


def _facts_of_ours(found: Instruction) -> Facts:
    facts: Facts = {
        "name": found.name,
        "line": found.line,
        "flags": [f"--{name}={value}" if value else f"--{name}" for name, value in found.flags],
        "heredocs": [(each.name, each.content) for each in found.heredocs],
        "json": found.json,
    }
    if found.name in SHELL_FORMS and found.json is None:
        facts["command"] = found.value
    return facts


class RefusedError(Exception):
    """BuildKit rejects this file."""


def buildkit(text: str) -> list[Facts]:
    # Imported late: the module exists only on x86_64.
    import dockerfile

    try:
        commands = dockerfile.parse_string(text)
    except dockerfile.GoParseError as problem:
        raise RefusedError from problem
    if any(not command.cmd for command in commands):
        # BuildKit's parser accepts an instruction without a name; a later stage rejects it.
        raise RefusedError
    return [_facts_of_buildkit(command) for command in commands]


def _facts_of_buildkit(found: Any) -> Facts:
    name = found.cmd.upper()
    # BuildKit removes the tabs when it runs the instruction, Argosy when it parses it.
    without_tabs = set(re.findall(r"<<-['\"]?(\w+)", found.original))
    facts: Facts = {
        "name": name,
        "line": found.start_line,
        "flags": list(found.flags),
        "heredocs": [
            (each.name, _stripped(each.content) if each.name in without_tabs else each.content)
            for each in found.heredocs
        ],
        "json": tuple(found.value) if found.json else None,
    }
    if name in SHELL_FORMS and not found.json:
        facts["command"] = "".join(found.value)
    return facts


def _stripped(content: str) -> str:
    return re.sub(r"(?m)^\t+", "", content)


ORDINARY = {
    "one line each": "FROM debian:bookworm AS base\nRUN true\nCMD sleep 1\n",
    "no newline at the end": "FROM a\nRUN true",
    "empty lines and comments": "\n# one\nFROM a\n\n  # two\nRUN true # not a comment\n",
    "continued lines": "FROM a\nRUN one \\\n && two \\\n\t&& three\nRUN four\n",
    "spaces behind the escape": "FROM a\nRUN one \\ \t\n  two\n",
    "comments between continued lines": "FROM a\nRUN one \\\n# why\n  # and how\n  two\nRUN three\n",
    "empty continued lines": "FROM a\nRUN one \\\n\n   \n  two\n\nRUN three\n",
    "a continued line at the end": "FROM a\nRUN one \\\n",
    "a continued comment": "FROM a\n# one \\\nRUN two\n",
    "an escaped escape": "FROM a\nRUN one\\\\\nRUN two\\\\\\\nRUN three\n",
    "a lone escape": "FROM a\nRUN one \\\n\\\ntwo\n",
    "an indented instruction": "FROM a\n  \tRUN one\n",
    "a name on a continued line": "FROM a\nRUN\\\n one\n \\\nRUN two\n",
    "escape directive": "# escape=`\nFROM a\nRUN one `\n  two \\\nRUN c:\\\nRUN three\n",
    "escape directive after another": "# syntax=docker/dockerfile:1\n#escape = `\nFROM a\nRUN b `\nc\n",
    "escape directive too late": "# a comment\n# escape=`\nFROM a\nRUN one \\\n two\n",
    "escape directive after an empty line": "\n# escape=`\nFROM a\nRUN one \\\n two\n",
    "CRLF": "FROM a\r\nRUN one \\\r\n # why\r\n\r\n  two\r\nENV A=1\r\n",
    "CRLF in a here-document": "FROM a\r\nRUN <<EOF\r\none\r\n\r\nEOF\r\nRUN two\r\n",
    "other ends of lines are none": "FROM a\nRUN one\x0ctwo\x0bthree\u2028four\rfive\nRUN six\n",
    "byte order mark": "FROM a\nRUN é ü\n",
    "heredoc": "FROM a\nRUN <<EOF\none\n  two $A\n\n# three\nfour \\\nEOF\nRUN five\n",
    "several heredocs": "FROM a\nRUN cat <<A - <<B > /c\na\nA\nb\nA\nB\nRUN d\n",
    "quoted heredocs": "FROM a\nRUN cat <<'A' <<\"B\" <<\\C\na\nA\nb\nB\nc\nC\n",
    "heredoc with a space in its name": 'FROM a\nRUN cat <<"A B"\na\nA B\n',
    "heredoc without tabs": "FROM a\nRUN <<-EOF\n\tone\n\t\ttwo\n three\n\tEOF\nRUN four\n",
    "heredoc with a number": "FROM a\nRUN cat 3<<EOF\none\nEOF\n",
    "heredoc of a continued line": "FROM a\nRUN cat <<EOF \\\n > /b\none\nEOF\nRUN two\n",
    "heredoc to copy": "FROM a\nCOPY --chmod=755 <<one <<-'two' /x/\n1\none\n\t2\n\ttwo\nADD <<f /y\nf\n",
    "empty heredoc": "FROM a\nRUN cat <<EOF\nEOF\n",
    "no heredoc: quoted": "FROM a\nRUN echo '<<EOF' \"a <<EOF\"\nRUN b\n",
    "no heredoc: behind other text": "FROM a\nRUN cat<<EOF\nRUN b\n",
    "no heredoc: a number is shifted": "FROM a\nRUN echo $((1 << 2)) $((1<<2)) <<<word\nRUN b\n",
    "no heredoc: an open quote": "FROM a\nRUN echo it's <<EOF\nRUN b\n",
    "no heredoc: a list": 'FROM a\nCOPY ["<<EOF", "/x"]\nRUN b\n',
    "no heredoc: another instruction": "FROM a\nCMD cat <<EOF\nRUN b\n",
    "flags": "FROM --platform=linux/amd64 a\nCOPY --from=b --chown=1:2 --link c d\nRUN e --f\n",
    "quoted flags": "FROM a\nRUN --mount='type=bind,source=a b' --x=\"it's\" --y=a\\ b c\n",
    "flags on several lines": "FROM a\nRUN --mount=type=tmpfs,target=/a \\\n  --network=host \\\n  b\n",
    "the end of flags": "FROM a\nRUN --network=host -- --a b\nRUN -a --b\n",
    "lists": 'FROM a\nRUN ["a", "b c"]\nCMD  [ "a" , "\\u00e9\\n" ]  \nENTRYPOINT []\n',
    "more lists": 'FROM a\nCOPY ["a b", "c"]\nADD ["d","e"]\nVOLUME ["/f"]\nSHELL ["g", "-c"]\n',
    "lists on several lines": 'FROM a\nCMD ["a", \\\n # why\n  "b"]\n',
    "no lists": 'FROM a\nRUN [ -e b ] && c\nCMD [\'a\']\nCMD ["a",]\nRUN ["a"\nCMD [NaN]\nEXPOSE ["80"]\n',
    "a list and more": 'FROM a\nRUN ["b"] && c\n',
    "tabs after the name": "FROM\ta\nRUN\tone\ttwo\nRUN \t three\n",
    "lower-case names": 'from a as b\nrun one\nCopy --from=b c d\ncmd ["e"]\n',
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_files_are_read_as_buildkit_reads_them(text: str) -> None:
    assert ours(text) == buildkit(text)


NAMES = st.sampled_from(("RUN", "run", "CMD", "ENTRYPOINT", "COPY", "add", "Volume", "USER"))
PLAIN = ("a", "b c", "'g h'", '"i"', "it's", "$k", "${l}", "#m", "é", "-", "--d", "--e=f")
LISTS = ("[", '["n"]', '["o", "p"] q')
HEREDOCS = ("<<", "<<A", "<<-B", "<<'C'", "2<<A", "x<<A")
ESCAPES = ("\\", "\\\\", "\\ j", "\\\n", "\\ \n", "\\\n\n", "\\\n# r\n", "\\\n  # s\\\n", "\\\r\n")
BACKTICKS = ("`", "`\n", "`\n # t\n")
WORDS = st.sampled_from((*PLAIN, *LISTS, *HEREDOCS, *ESCAPES, *BACKTICKS))
SPACES = st.sampled_from((" ", " ", "  ", "\t", "\x0c"))
BETWEEN = st.sampled_from(("", "", "\n", "# u\n", "  # v \\\n", " \t\n", "\r\n"))
ENDS = st.sampled_from(("\n", "\n", "\r\n", " \n"))
CONTENT = st.sampled_from(("", "one\n", "\ttwo\n", "# three\n\n", "four \\\n", "A B\n", "five\r\n"))


@st.composite
def instructions(draw: st.DrawFn) -> str:
    """An instruction, with the end lines of all here-documents that it may begin."""
    pieces = [draw(NAMES), draw(SPACES), "w"]
    if draw(st.booleans()):
        pieces.pop()
    for word in draw(st.lists(WORDS, max_size=6)):
        pieces += [word, draw(SPACES)]
    ends = [f"{draw(CONTENT)}{draw(st.sampled_from(('', chr(9))))}{name}\n" for name in "ABCABC"]
    begun = "<<" in "".join(pieces)
    return "".join([*pieces, "x", draw(ENDS), *(ends if begun else ())])


@st.composite
def files(draw: st.DrawFn) -> str:
    head = draw(
        st.sampled_from(("", "# escape=`\n", "# syntax=x\n# escape=\\\n", "# y\n#escape=`\n"))
    )
    parts = draw(st.lists(st.tuples(BETWEEN, instructions()), min_size=1, max_size=4))
    return head + "FROM a\n" + "".join(between + each for between, each in parts)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(files())
def test_random_files_are_read_or_refused_as_buildkit_does(text: str) -> None:
    try:
        expected = buildkit(text)
    except RefusedError:
        with pytest.raises(ArgosyError):
            ours(text)
    else:
        assert ours(text) == expected
