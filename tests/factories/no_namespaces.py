"""A world without user namespaces, as nodes of some sites are; and proot, which needs none."""

import os
import platform
import subprocess
from pathlib import Path

from argosy.images import tools
from argosy.images.store.store import Store

CHOOSE = """
import sys
from pathlib import Path
from argosy.images.engines.choice import choose_engine
from argosy.images.store.store import Store
print(choose_engine(Store(Path(sys.argv[1]))).engine)
"""

_FORBID = """
echo 0 > /proc/sys/user/max_user_namespaces
exec setpriv --ambient-caps -all --inh-caps -all --bounding-set -all "$@"
"""

# udocker passes `-k KERNEL`; how proot 5.1 then answers newfstatat(fd, "") keeps glibc from loading.
_WITHOUT_KERNEL = """#!/bin/bash
options=()
while [ $# -gt 0 ]; do
    case "$1" in
        -k) shift 2 ;;
        -r) options+=("$@"); break ;;
        *) options+=("$1"); shift ;;
    esac
done
export LD_LIBRARY_PATH='{libraries}'
exec '{proot}' "${{options[@]}}"
"""


def without_namespaces(
    *command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command, as the same user, where user namespaces are forbidden."""
    world = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", _FORBID, "sh"]
    return subprocess.run(
        [*world, *command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def install_proot(store: Store) -> None:
    """Give udocker the distribution's proot, for its modes P1 and P2."""
    proot = tools.require(store, "proot", print)
    libraries = tools.environment(store).get("LD_LIBRARY_PATH", "")
    program = store.udocker / "bin" / f"proot-{platform.machine()}-4_8_0"
    program.write_text(_WITHOUT_KERNEL.format(libraries=libraries, proot=proot))
    program.chmod(0o755)
    program.with_name(f"proot-{platform.machine()}").symlink_to(program.name)
