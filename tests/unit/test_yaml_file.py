"""A YAML file that users wrote: it is read whole, or a line says what is wrong."""

import os
from pathlib import Path

import pytest

from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError


def test_values_and_merged_keys(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("a: &a {b: 1, c: [2, 3]}\nd: {<<: *a, b: 4}\ne: *a\n")
    assert read_yaml(path) == {
        "a": {"b": 1, "c": [2, 3]},
        "d": {"b": 4, "c": [2, 3]},
        "e": {"b": 1, "c": [2, 3]},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a: [", "is not YAML"),
        (b"a: 1\nb: 2\na: 3\n", "the key a is written twice"),
        (b"x:\n  a: {b: 1, b: 2}\n", "the key b is written twice"),
        (b"a: &a [*a]\n", "Circular"),
        (b"a: " + b"9" * 5000, "cannot be read"),
        (b"a: 2026-02-30\n", "cannot be read"),
        (b"[" * 100_000, "too deeply"),
        (b"\xff\xfe\x00\x80", "is not UTF-8"),
        (b"a: !!python/object:os.system {}", "is not YAML"),
        (b"a: \x01", "is not YAML"),
        (b"? [a]\n: 1\n", "unhashable key"),
        (b"{{a: 1}: 1}", "unhashable key"),
        (b"a: !!timestamp x", "cannot be read"),
        (b"a: !!bool x", "cannot be read"),
        (b"!!map [a]", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(text)
    with pytest.raises(ArgosyError, match=said) as problem:
        read_yaml(path)
    assert str(problem.value).startswith(str(path))


@pytest.mark.parametrize("width", [9, 50])
def test_aliases_of_aliases_are_not_written_out(tmp_path: Path, width: int) -> None:
    """A few hundred bytes may stand for more values than anybody can read."""
    lines = ["a0: &a0 [x, x]"]
    for level in range(1, 30):
        many = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{many}]")
    path = tmp_path / "site.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(
        ArgosyError, match="contains more than 1,000,000 values, with aliases expanded"
    ):
        read_yaml(path)


def test_aliases_are_read(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("a: &a {x: 1}\nb: *a\nc: [*a, *a]\nd: &d 3\ne: *d\n")
    one = {"x": 1}
    assert read_yaml(path) == {"a": one, "b": one, "c": [one, one], "d": 3, "e": 3}


@pytest.mark.parametrize("made", ["device", "pipe", "folder", "large"])
def test_what_never_ends_or_begins_is_refused(tmp_path: Path, made: str) -> None:
    path = tmp_path / "costs.yaml"
    if made == "device":
        path = Path("/dev/zero")
    elif made == "pipe":
        os.mkfifo(path)
    elif made == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    with pytest.raises(
        ArgosyError, match=r"is not a regular file|is larger than|Is a directory"
    ) as said:
        read_yaml(path)
    assert str(said.value).startswith(str(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match="No such file"):
        read_yaml(tmp_path / "site.yaml")
