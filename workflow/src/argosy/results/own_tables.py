"""Marks of the tables that this user made: those of strangers may say anything of their records.

A mark is the keyed hash of a table, in a file beside it. Its key lies in the user's own folder, so nobody
else can make one, and a study may be copied and moved.
"""

import hashlib
import os
import secrets
from pathlib import Path

from argosy_common.files import write_text
from argosy_common.reading import open_regular, read_text

STATE_VARIABLE = "XDG_STATE_HOME"
KEY_BYTES = 32


def mark(table: Path) -> None:
    """Mark a table as this user's, where there is a place for the key.

    Raises:
        OSError: when the mark cannot be written.
    """
    if key := _key(make=True):
        write_text(_mark_of(table), _hash(table, key))


def is_own(table: Path) -> bool:
    """Return whether this user has made the table, and nobody has changed it."""
    try:
        key = _key(make=False)
        return bool(key) and secrets.compare_digest(
            read_text(_mark_of(table), table.parent), _hash(table, key)
        )
    except (OSError, ValueError, TypeError):
        # Of another user, from another machine, or no file at all.
        return False


def _mark_of(table: Path) -> Path:
    return table.with_suffix(".mark")


def _hash(table: Path, key: bytes) -> str:
    with open_regular(table, table.parent) as file:
        # The name belongs to it: one table is not another.
        keyed = hashlib.blake2b(table.name.encode(), key=key)
        while chunk := file.read(1 << 20):
            keyed.update(chunk)
    return keyed.hexdigest()


def _key(*, make: bool) -> bytes:
    """Return the user's key; empty where there is none."""
    try:
        place = Path(os.environ.get(STATE_VARIABLE) or Path.home() / ".local/state")
        path = place / "argosy" / "tables.key"
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            own = path.with_name(f".{secrets.token_hex(8)}")
            own.touch(mode=0o600)
            own.write_bytes(secrets.token_bytes(KEY_BYTES))
            own.rename(path)
        key = path.read_bytes()
    except (OSError, RuntimeError):
        # No home, or nothing can be written there: all tables are made anew.
        return b""
    return key if len(key) == KEY_BYTES and path.stat().st_uid == os.geteuid() else b""
