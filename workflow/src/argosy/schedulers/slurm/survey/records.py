"""The answers of `scontrol show … -o` and `sacctmgr -nP`, alike from Slurm 20 to 25.

Text and not `--json`: that came with 21.08, needs a plugin that sites may leave out, and its keys have
changed with nearly every version, while these lines have kept theirs.
"""

import re

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*)=")
ABSENT = frozenset({"", "(null)", "N/A", "NONE", "n/a", "none"})


def read_records(text: str) -> list[dict[str, str]]:
    """Return one dictionary a line; the first of a key counts, as free text comes last."""
    return [record for record in map(_record, text.splitlines()) if record]


def _record(line: str) -> dict[str, str]:
    """Return the values of a line's keys; a value may hold spaces, and lasts until the next key."""
    keys = list(_KEY.finditer(line))
    ends = [each.start() for each in keys[1:]] + [len(line)]
    found: dict[str, str] = {}
    for key, end in zip(keys, ends, strict=False):
        found.setdefault(key[1], line[key.end() : end].strip())
    return found


def read_config(text: str) -> dict[str, str]:
    """Return what `scontrol show config` says, by key."""
    rows = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, mark, value in rows if mark}


def read_table(text: str) -> list[list[str]]:
    """Return the fields of each line of `sacctmgr -nP`."""
    return [line.split("|") for line in text.splitlines() if line]


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
