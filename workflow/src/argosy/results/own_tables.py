"""Marks the tables that this user wrote: foreign tables may contain anything.

A mark is a keyed hash of a table, in a file beside it. The key is in the user's home folder, so nobody else
can create a mark, and a study may be copied and moved.
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
    """Mark a table as this user's; do nothing if no key can be stored.

    Raises:
        OSError: if the mark cannot be written.
    """
    if key := _key(make=True):
        write_text(_mark_of(table), _hash(table, key))


def is_own(table: Path) -> bool:
    """Return whether this user wrote the table and nobody changed it."""
    try:
        key = _key(make=False)
        return bool(key) and secrets.compare_digest(
            read_text(_mark_of(table), table.parent), _hash(table, key)
        )
    except (OSError, ValueError, TypeError):
        # The mark is another user's, from another machine, or missing.
        return False


def _mark_of(table: Path) -> Path:
    return table.with_suffix(".mark")


def _hash(table: Path, key: bytes) -> str:
    with open_regular(table, table.parent) as file:
        # Hash the name too, so that tables cannot be swapped.
        keyed = hashlib.blake2b(table.name.encode(), key=key)
        while chunk := file.read(1 << 20):
            keyed.update(chunk)
    return keyed.hexdigest()


def _key(*, make: bool) -> bytes:
    """Return the user's key; empty if there is none."""
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
        # Without a writable home, all tables are rebuilt each time.
        return b""
    return key if len(key) == KEY_BYTES and path.stat().st_uid == os.geteuid() else b""
