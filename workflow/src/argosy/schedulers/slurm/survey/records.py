"""Values in the answers of scontrol and sacctmgr, alike from Slurm 20 to 25."""

import re

ABSENT = frozenset({"", "(null)", "N/A", "NONE", "n/a", "none"})


def known(record: dict[str, str], key: str) -> str:
    """Return a value; empty where Slurm says that there is none."""
    value = record.get(key, "")
    return "" if value in ABSENT else value


def key_of(name: str) -> str:
    """Return a name of Slurm's as a key of a site's file can be."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "unnamed"


def number(text: str) -> int | None:
    """Return a whole number; None for `UNLIMITED` and the like."""
    return int(text) if text.isdigit() else None
