"""Parsing of instructions, and errors with file and line."""

from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.containerfile.instructions import (
    Arg,
    Copy,
    Entry,
    From,
    Ignored,
    Mount,
    Program,
    Run,
    Setting,
    Words,
    content_of,
    expanded,
)
from argosy_images.containerfile.stages import read_instruction
from argosy_images.containerfile.text import Source, split_instructions

SOURCE = Source(Path("image/Containerfile"))
CHECKSUM = f"sha256:{'0' * 64}"


def read(text: str) -> Entry:
    [raw] = split_instructions(SOURCE, text)
    return read_instruction(SOURCE, raw)


@pytest.mark.parametrize(
    ("text", "base", "alias", "platform"),
    [
        ("FROM a", "a", None, None),
        ("FROM a:1 AS Build-1.x", "a:1", "build-1.x", None),
        ("from --platform=$BUILDPLATFORM a as b", "a", "b", "$BUILDPLATFORM"),
    ],
)
def test_from_names_base_and_stage(
    text: str, base: str, alias: str | None, platform: str | None
) -> None:
    found = read(text)
    assert isinstance(found, From)
    assert (found.base, found.alias, found.platform) == (base, alias, platform)


def test_arguments_may_have_defaults() -> None:
    found = read('ARG A B= C="d e"')
    assert isinstance(found, Arg)
    assert found.names == (("A", None), ("B", ""), ("C", '"d e"'))


@pytest.mark.parametrize("name", ["ENV", "LABEL"])
@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ("A=1 B=\"two words\" C='$D'", (("A", "1"), ("B", '"two words"'), ("C", "'$D'"))),
        ("A=b=c D=", (("A", "b=c"), ("D", ""))),
        ("A  the old  form", (("A", "the old  form"),)),
        ("A\tb c=d", (("A", "b c=d"),)),
    ],
)
def test_settings_are_pairs(name: str, value: str, pairs: tuple[tuple[str, str], ...]) -> None:
    found = read(f"{name} {value}")
    assert isinstance(found, Setting)
    assert (found.name, found.pairs) == (name, pairs)


def test_a_step_is_a_line_for_the_shell_or_a_list() -> None:
    line, words = read("RUN a  'b c'"), read('RUN ["a", "b c"]')
    assert isinstance(line, Run)
    assert isinstance(words, Run)
    assert line.command == "a  'b c'"
    assert words.command == ("a", "b c")


def test_a_step_may_use_the_host_s_network() -> None:
    assert isinstance(read("RUN --network=host a"), Run)


@pytest.mark.parametrize(
    ("value", "mount"),
    [
        ("type=cache,target=/a", Mount("cache", "/a", identity="/a")),
        ("type=cache,dst=/a,id=b,sharing=locked", Mount("cache", "/a", identity="b")),
        ("type=cache,target=/a,ro", Mount("cache", "/a", identity="/a", writable=False)),
        ("type=tmpfs,target=/a,size=1g", Mount("tmpfs", "/a", identity="/a")),
        ("target=/a", Mount("bind", "/a", identity="/a", writable=False)),
        ("target=/a,z", Mount("bind", "/a", identity="/a", writable=False)),
        ("type=cache,target=/a,Z", Mount("cache", "/a", identity="/a")),
        (
            "type=bind,source=b,destination=/a,rw",
            Mount("bind", "/a", source="b", identity="/a", writable=True),
        ),
        (
            "type=bind,src=/b,from=c,target=/a,rw=false",
            Mount("bind", "/a", source="/b", stage="c", identity="/a", writable=False),
        ),
    ],
)
def test_mounts_are_described_by_pairs(value: str, mount: Mount) -> None:
    found = read(f"RUN --mount={value} --mount=type=tmpfs,target=/other true")
    assert isinstance(found, Run)
    assert found.mounts[0] == mount
    assert found.mounts[1].target == "/other"


def test_copy_takes_sources_to_a_target() -> None:
    found = read("COPY --from=b --chmod=0755 --chown=1:2 --link=false c d /e/")
    assert isinstance(found, Copy)
    assert (found.sources, found.target) == (("c", "d"), "/e/")
    assert (found.stage, found.mode, found.checksum) == ("b", 0o755, None)
    assert not found.unpacks


def test_add_unpacks_and_has_a_checksum() -> None:
    found = read(f"ADD --checksum={CHECKSUM} https://example.org/a /b")
    assert isinstance(found, Copy)
    assert found.unpacks
    assert (found.checksum, found.mode, found.stage) == (CHECKSUM, None, None)


def test_only_a_list_holds_spaces_together() -> None:
    as_list, as_words = read('COPY ["a b", "c"]'), read('COPY "a b" c')
    assert isinstance(as_list, Copy)
    assert isinstance(as_words, Copy)
    assert as_list.sources == ("a b",)
    assert as_words.sources == ('"a', 'b"')


def test_here_documents_are_no_sources() -> None:
    found = read("COPY a <<b /c/\nd\nb\n")
    assert isinstance(found, Copy)
    assert found.sources == ("a",)
    assert [(each.name, each.content) for each in found.heredocs] == [("b", "d\n")]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("CMD a 'b c'", "a 'b c'"),
        ('CMD ["a", "b c"]', ("a", "b c")),
        ("CMD []", ()),
        ('ENTRYPOINT ["a"]', ("a",)),
        ('SHELL ["/bin/bash", "-c"]', ("/bin/bash", "-c")),
    ],
)
def test_programs_are_lines_or_lists(text: str, command: str | tuple[str, ...]) -> None:
    found = read(text)
    assert isinstance(found, Program)
    assert found.command == command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("WORKDIR /a b", ("/a b",)),
        ("MAINTAINER Jane O'Neill <jane@example.org>", ("Jane O'Neill <jane@example.org>",)),
        ("USER me:us", ("me:us",)),
        ("EXPOSE 80 443/udp", ("80", "443/udp")),
        ("VOLUME /a /b", ("/a", "/b")),
        ('VOLUME ["/a b"]', ("/a b",)),
        ("STOPSIGNAL SIGINT", ("SIGINT",)),
    ],
)
def test_other_instructions_have_words(text: str, words: tuple[str, ...]) -> None:
    found = read(text)
    assert isinstance(found, Words)
    assert found.words == words


def test_a_health_check_is_left_out_and_says_why() -> None:
    found = read("HEALTHCHECK --interval=3s CMD true")
    assert isinstance(found, Ignored)
    assert "ignored" in found.why


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ONBUILD RUN a", "ONBUILD is not supported; there are ADD, ARG, CMD, COPY"),
        ("FRM a", "FRM is not supported"),
        ("RUN", "RUN has no value"),
        ("FROM a b", "write `FROM image` or `FROM image AS name`"),
        ("FROM a OF b", "write `FROM image` or"),
        ("FROM a AS 1", "1 cannot be a stage's name"),
        ("FROM a AS scratch", "scratch cannot be a stage's name"),
        ("ARG =a", "ARG: `=a` has no name"),
        ("ARG A='b", "`A='b` has no closing '"),
        ("ENV A", "ENV A has no value"),
        ("ENV A=1 B", "ENV: `B` is not NAME=value"),
        ("ENV A=1 =2", "ENV: `=2` is not NAME=value"),
        ('LABEL a="b', '`a="b` has no closing "'),
        ("RUN --network=none a", "RUN --network: only the host's network is available"),
        ("RUN --security=insecure a", "RUN --security is not supported; there are --mount"),
        ("RUN --Mount=type=tmpfs a", "RUN --Mount is not supported"),
        ("RUN []", "RUN [] names no program"),
        ("RUN --mount=type=secret,id=a b", "RUN --mount: the types cache, bind and tmpfs"),
        ("RUN --mount=type=cache b", "RUN --mount=type=cache: add target=/a/folder"),
        ("RUN --mount b", "RUN --mount needs a value"),
        ("RUN --mount=target=/a,size=1g b", "RUN --mount=type=bind: `size` is not supported"),
        ("RUN --mount=type=cache,target=/a,from=c b", "RUN --mount=type=cache: from and source"),
        ("RUN --mount=target=/a,rw=maybe b", "RUN --mount: `maybe` is neither true nor false"),
        (
            "RUN --mount=target=/a,from=$C b",
            "RUN --mount from=$C: variables are not supported here",
        ),
        ("COPY a", "COPY needs a source and a target"),
        ("COPY a <<b\nc\nb", "COPY needs a source and a target"),
        ("COPY --from a b", "COPY --from needs a value"),
        ("COPY --from=$X a b", "--from=$X: variables are not supported here"),
        ("COPY --from=a --from=b c d", "COPY --from is there twice"),
        ("COPY --parents a b", "COPY --parents is not supported; there are --chmod"),
        ("COPY --chmod=u+x a b", "--chmod=u+x: an octal number"),
        ("ADD --from=a b c", "ADD --from is not supported"),
        ("ADD --checksum=sha256:12 https://a/b c", "--checksum=sha256:12: must be sha256: and"),
        ("CMD --a b", "CMD --a is not supported"),
        ("SHELL bash -c", "SHELL is written as a list"),
        ("SHELL []", "SHELL is written as a list"),
        ("USER a b", "USER takes one word"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_line(text: str, message: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        read(f"\n\n{text}\n")
    assert str(problem.value).startswith(f"image/Containerfile:3: {message}")
    assert "\n" not in str(problem.value)


def test_words_are_expanded_with_the_file_s_escape_character() -> None:
    entry = read("# escape=`\nUSER a")
    assert expanded(SOURCE, entry, "`$A\\$A", {"A": "b"}) == "$A\\b"


@pytest.mark.parametrize(("name", "content"), [("b", '1 "it\'s"\n'), ("'b'", '$A "it\'s"\n')])
def test_a_here_document_is_expanded_unless_its_name_is_quoted(name: str, content: str) -> None:
    entry = read(f'COPY <<{name} /c\n$A "it\'s"\nb\n')
    assert isinstance(entry, Copy)
    assert content_of(SOURCE, entry, entry.heredocs[0], {"A": "1"}) == content
