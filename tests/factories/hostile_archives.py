"""Make hostile and damaged tars and OCI archives.

The same seed gives the same archive.
"""

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from argosy_images.oci import architecture

BLOCK = tarfile.BLOCKSIZE

_HEADERS = (b"x", b"g", b"X", b"L", b"K", b"S")
_TYPES = (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"\0", b"D", b"M", b"V", b"?", *_HEADERS)

Record = tuple[str, str]


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, **fields: Any) -> bytes:
    """Make one header block with any size."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")[-BLOCK:]


def pax(records: list[Record], kind: bytes = tarfile.XHDTYPE, size: int | None = None) -> bytes:
    """Make a header of PAX records; it may claim another length."""
    body = b"".join(_record(*each) for each in records)
    return header("pax", kind, len(body) if size is None else size) + padded(body)


def _record(name: str, value: str) -> bytes:
    content = f" {name}={value}\n".encode("utf-8", "surrogateescape")
    length = len(content)
    while len(str(length)) + len(content) != length:
        length = len(str(length)) + len(content)
    return str(length).encode() + content


def sparse_1_0(claimed: int) -> bytes:
    """Make a sparse file (PAX 1.0) of any claimed size without data."""
    records = [
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", "huge"),
        ("GNU.sparse.realsize", str(claimed)),
    ]
    return pax(records) + header("huge", size=BLOCK) + padded(f"1\n{claimed}\n0\n".encode())


def sparse_0_1(claimed: int) -> bytes:
    records = [("GNU.sparse.map", f"{claimed},0"), ("GNU.sparse.size", str(claimed))]
    return pax([*records, ("GNU.sparse.name", "huge")]) + header("huge")


def sparse_0_0(claimed: int) -> bytes:
    records = [("GNU.sparse.size", str(claimed)), ("GNU.sparse.numblocks", "1")]
    hole = [("GNU.sparse.offset", str(claimed)), ("GNU.sparse.numbytes", "0")]
    return pax([*records, *hole]) + header("huge")


def sparse_old(claimed: int) -> bytes:
    """Make a sparse file in the GNU format, with its map in the header."""
    return sparse_old_begin(claimed, goes_on=False)


def sparse_old_begin(claimed: int = 1 << 20, *, goes_on: bool = True) -> bytes:
    """Make a header of a sparse file whose map continues in further blocks."""
    block = bytearray(header("huge", b"S"))
    block[386:482] = bytes(96)
    block[482] = goes_on
    block[483:495] = b"\x80" + claimed.to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def sparse_without_end() -> bytes:
    """Make a list of holes that continues after the end of the tar."""
    records = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "1")]
    return pax(records) + header("huge", size=BLOCK) + padded(b"999999\n1\n0\n").rstrip(b"\0")


def negative(size: int) -> bytes:
    """Make a file with a negative size, in base 256 as GNU tar's large sizes."""
    block = bytearray(header("a"))
    block[124:136] = (size % (1 << 96)).to_bytes(12, "big")
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def chained(kind: bytes, number: int) -> bytes:
    """Make a chain of extension headers."""
    one = pax([("path", "a")], kind) if kind in b"xgX" else header("l", kind, 2) + padded(b"a\0")
    return one * number + header("a")


def hostile_tar(choice: random.Random, outside: Path) -> bytes:
    """Make a tar of a few members, some of them hostile."""
    names = _names(choice, outside)
    parts = [_member(choice, names) for _ in range(choice.randrange(1, 6))]
    content = b"".join(parts) + bytes(choice.choice((0, 2, 20)) * BLOCK)
    return damaged(choice, content) if choice.random() < 0.3 else content


def damaged(choice: random.Random, content: bytes) -> bytes:
    """Change, remove, repeat or cut off bytes."""
    changed = bytearray(content)
    for _ in range(choice.randrange(1, 8)):
        place = choice.randrange(max(1, len(changed)))
        match choice.randrange(4):
            case 0 if changed:
                changed[place] = choice.randrange(256)
            case 1:
                del changed[place : place + choice.randrange(1, 2 * BLOCK)]
            case 2:
                changed[place:place] = changed[place : place + BLOCK]
            case _:
                numbers = (b"\xff" * 12, b"\x80" + b"\x7f" * 11, b"9" * 12)
                changed[place : place + 12] = choice.choice(numbers)
    return bytes(changed)


def _names(choice: random.Random, outside: Path) -> Callable[[], str]:
    """Return a few names, so that members collide, and names that leave the image."""
    ways = (
        f"{outside}/secret",
        f"../../outside/{choice.randrange(9)}",
        "a/../../x",
        "a/link/../x",
        ".",
        "",
        "a/.wh..",
        ".wh..wh..opq",
        "a/.wh..wh..opq",
        ".wh." + "n" * 300,
        "a/.wh.b",
        "n" * 300,
        "/".join("d" * 250),
        "\udcff\udcfe",
        "new\nline\x1b[31m",
        "dev/sda",
        "etc",
        "etc/hosts",
        "run/argosy",
    )
    plain = ("a", "a/b", "a/b/c", "link", "link/x", "b", "a/link")
    return lambda: choice.choice(plain if choice.random() < 0.7 else ways)


def _member(choice: random.Random, names: Callable[[], str]) -> bytes:
    kinds = (_sparse, _chain, _records, _path, _of_any_type, _negative, _folder)
    make = choice.choice((*kinds, _link, _link, _file, _file, _file, _file))
    return make(choice, names)


def _huge(choice: random.Random) -> int:
    return choice.choice((1 << 33, 1 << 62, 1 << 40, 10**18))


def _sparse(choice: random.Random, names: Callable[[], str]) -> bytes:
    if choice.random() < 0.25:
        return sparse_without_end()
    return choice.choice((sparse_1_0, sparse_0_1, sparse_0_0))(max(1 << 40, _huge(choice)))


def _chain(choice: random.Random, names: Callable[[], str]) -> bytes:
    return chained(choice.choice(_HEADERS[:5]), choice.choice((1, 3, 50, 3000)))


def _records(choice: random.Random, names: Callable[[], str]) -> bytes:
    records = [(_key(choice), _value(choice, names)) for _ in range(choice.randrange(5))]
    return pax(records, choice.choice((b"x", b"g"))) + header(names())


def _path(choice: random.Random, names: Callable[[], str]) -> bytes:
    return pax([("path", names())], size=choice.choice((3, 5000, _huge(choice)))) + header("a")


def _of_any_type(choice: random.Random, names: Callable[[], str]) -> bytes:
    return header(names()[:90], choice.choice(_TYPES), choice.choice((0, 7, _huge(choice))))


def _negative(choice: random.Random, names: Callable[[], str]) -> bytes:
    return negative(-choice.choice((1, BLOCK, 2 * BLOCK)))


def _folder(choice: random.Random, names: Callable[[], str]) -> bytes:
    return header(names()[:90], b"5", mode=choice.choice((0, 0o777, 0o7777)))


def _file(choice: random.Random, names: Callable[[], str]) -> bytes:
    content = choice.randbytes(choice.choice((0, 3, BLOCK, 5000)))
    mode = choice.choice((0o4755, 0, 0o644))
    return header(names()[:90], size=len(content), mode=mode) + padded(content)


def _link(choice: random.Random, names: Callable[[], str]) -> bytes:
    kind = choice.choice((b"1", b"2", b"2"))
    target = choice.choice((names(), "..", "/", "/etc", "../../outside"))[:99]
    return header(names()[:90], kind, linkname=target)


def _key(choice: random.Random) -> str:
    return choice.choice(
        (
            "path",
            "linkpath",
            "size",
            "mtime",
            "mode",
            "uid",
            "hdrcharset",
            "GNU.sparse.name",
            "k" * 300,
        )
    )


def _value(choice: random.Random, names: Callable[[], str]) -> str:
    return choice.choice(
        (names(), "-1", "9" * 30, "nan", "1e999", "", "\0", "x" * 9000, "-9" * 300)
    )


def write_image(file: Path, choice: random.Random, layers: list[bytes]) -> None:
    """Write an OCI or Docker archive, whose descriptions may be invalid, too."""
    packed = [gzip.compress(each, 1) if choice.random() < 0.4 else each for each in layers]
    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": [sha256(each) for each in layers]},
        "history": [{"created_by": "x"} for _ in layers],
    }
    if choice.random() < 0.15:
        _spoil(choice, config)
    files: dict[str, bytes] = {}
    if choice.random() < 0.5:
        _add_docker(files, config, packed)
    else:
        _add_oci(files, choice, config, packed)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    whole = buffer.getvalue()
    file.write_bytes(damaged(choice, whole) if choice.random() < 0.15 else whole)


def _add_docker(files: dict[str, bytes], config: Any, packed: list[bytes]) -> None:
    blob = json.dumps(config).encode()
    names = [f"{number}/layer.tar" for number in range(len(packed))]
    files.update(zip(names, packed, strict=True))
    name = f"{sha256(blob).removeprefix('sha256:')}.json"
    files[name] = blob
    files["manifest.json"] = json.dumps([{"Config": name, "Layers": names}]).encode()


def _add_oci(
    files: dict[str, bytes], choice: random.Random, config: Any, packed: list[bytes]
) -> None:
    def add(content: bytes) -> dict[str, Any]:
        files[f"blobs/{sha256(content).replace(':', '/')}"] = content
        return {"digest": sha256(content), "size": len(content)}

    manifest: Any = {"config": add(json.dumps(config).encode()), "layers": [*map(add, packed)]}
    if choice.random() < 0.15:
        _spoil(choice, manifest)
    index: Any = {"manifests": [add(json.dumps(manifest).encode())]}
    if choice.random() < 0.1:
        _spoil(choice, index)
    files["index.json"] = json.dumps(index).encode()


def _spoil(choice: random.Random, value: Any) -> None:
    """Replace a random part by a value of another type."""
    keys = [*value] if isinstance(value, dict) else [*range(len(value))]
    if not keys:
        return
    key = choice.choice(keys)
    if isinstance(value[key], dict | list) and value[key] and choice.random() < 0.7:
        _spoil(choice, value[key])
        return
    nonsense = (
        None,
        0,
        -1,
        "",
        "\ud800",
        "a\0b",
        "\x1b[31m",
        [],
        {},
        [[]],
        {"a": 1},
        1e308,
        "x" * 70_000,
    )
    value[key] = choice.choice(nonsense)
