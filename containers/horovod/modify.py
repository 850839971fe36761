"""Makes of Horovod 0.28.1's source the one that is built: `python3 modify.py SOURCE`.

It is Horovod's last release (Apache License 2.0, https://github.com/horovod/horovod). `repairs.py` and
`waits.py` hold the changes, each with its reason. The licence wants changed files to say so: a list of
all changes goes into the file NOTICE.argosy.
"""

import sys
from pathlib import Path

import repairs
import waits

CHANGES = (*repairs.CHANGES, *waits.CHANGES)


def notice() -> str:
    """What the licence wants said of the changes."""
    said = [f"* {', '.join(change.files())}: {change.why}." for change in CHANGES]
    return "Horovod 0.28.1, Apache License 2.0, MODIFIED in these files:\n" + "\n".join(said) + "\n"


def main() -> None:
    source = Path(sys.argv[1])
    for change in CHANGES:
        for edit in change.edits:
            edit.apply(source)
    (source / "NOTICE.argosy").write_text(notice(), encoding="utf-8")


if __name__ == "__main__":
    main()
