"""Strangers who beset the ports of a job."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import connection_flood

STRANGERS = 2000


@contextmanager
def beset(become: list[str], *places: str) -> Iterator[list[int]]:
    """Strangers at these places; afterwards the number of connections that they have made."""
    # That user may not look into our folders.
    source = Path(connection_flood.__file__).read_text()
    command = [*become, "/usr/bin/python3", "-c", source, str(STRANGERS), *places]
    made: list[int] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as flood:
        try:
            assert flood.stdout
            assert flood.stdout.readline() == "all\n"
            yield made
            said, _ = flood.communicate("", timeout=30)
            made.append(int(said))
        finally:
            flood.kill()
