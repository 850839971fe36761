"""Run commands without user namespaces, as on nodes of some sites."""

import os
import subprocess
from pathlib import Path

CHOOSE = """
import sys
from pathlib import Path
from argosy_images.engines.choice import choose_engine
from argosy_images.store.store import Store
print(choose_engine(Store(Path(sys.argv[1]))).engine)
"""

TRY = """
import sys
from pathlib import Path
from argosy_images.engines.choice import try_engine
from argosy_images.store.store import Store
print(try_engine(Store(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]).said)
"""
"""Program that prints why an engine does not work with a frozen tree, or an empty line."""

_FORBID = """
echo 0 > /proc/sys/user/max_user_namespaces
exec setpriv --ambient-caps -all --inh-caps -all --bounding-set -all "$@"
"""


def without_namespaces(
    *command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command as the same user with user namespaces forbidden."""
    return subprocess.run(
        forbidding(*command),
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def forbidding(*command: str | Path) -> list[str | Path]:
    """Return the command line that runs a command as the same user with user namespaces forbidden."""
    world = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", _FORBID, "sh"]
    return [*world, *command]
