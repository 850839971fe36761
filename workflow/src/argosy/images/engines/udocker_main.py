"""udocker's command line, read-only: `python -m argosy.images.engines.udocker_main TARGET… -- …`.

udocker 1.3.17 mounts the image and every volume writable in its R1 mode and has no option for it. The
image and the volumes at TARGET are read-only here. Its modes by proot cannot do that (see
`container.UNISOLATED_ENGINES`).
"""

import sys
from pathlib import Path
from typing import Any

from udocker.engine.runc import RuncEngine
from udocker.maincmd import main

from argosy.images.engines.mounts import mount_flags, mounts_below
from argosy.images.engines.runc import no_setuid


def mount_read_only(targets: list[str]) -> None:
    """Let udocker mount the image read-only, and volumes at these targets with what is mounted below them.

    What is mounted below /sys too: control groups may be the user's own.
    """
    add_mount, add_volumes = RuncEngine._add_mount_spec, RuncEngine._add_volume_bindings
    set_specification = RuncEngine._set_spec

    def add(self: Any, source: str, target: str, rwmode: bool = False, **more: Any) -> None:
        if more or not Path(source).is_dir():
            add_mount(self, source, target, rwmode, **more)
            return
        mode = "ro" if target in targets else "rw"
        options = ["rbind", *mount_flags(Path(source)), mode]
        add_mount(self, source, target, options=options)
        if mode == "ro":
            for mount in mounts_below(Path(source).resolve(), target):
                options = ["rbind", *mount.flags, "ro"]
                add_mount(self, str(mount.source), mount.target, options=options)

    def add_all(self: Any) -> None:
        for mount in mounts_below(Path("/sys"), "/sys"):
            options = ["rbind", *mount.flags, "ro"]
            add_mount(self, str(mount.source), mount.target, options=options)
        add_volumes(self)

    def set_all(self: Any) -> Any:
        described = set_specification(self)
        described["root"]["readonly"] = True
        if filtered := no_setuid():
            described["linux"]["seccomp"] = filtered
        return described

    RuncEngine._set_spec = set_all
    RuncEngine._add_mount_spec = add
    RuncEngine._add_volume_bindings = add_all


if __name__ == "__main__":
    end = sys.argv.index("--")
    mount_read_only(sys.argv[1:end])
    sys.argv = ["udocker", *sys.argv[end + 1 :]]
    sys.exit(main())
