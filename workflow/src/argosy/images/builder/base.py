"""The root file system that FROM names, finished as a step of the build.

`fetching` makes its files; those from the Debian archive have yet to be configured by dpkg.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from argosy.images.builder.cache import CachedBase
from argosy.images.rootfs.rooted import Root
from argosy.images.store.store import remove_tree

CONFIGURE = (
    "dpkg --force-depends --force-unsafe-io --install /var/cache/apt/archives/*.deb"
    " && apt-get clean"
)
"""Has dpkg install what mmdebstrap unpacked; the packages are still where apt put them."""


@dataclass(frozen=True)
class Fetched:
    """A base whose files are in a folder.

    Args:
        downloads: files that have no use any more once the base is in the cache.
    """

    base: CachedBase
    downloads: tuple[Path, ...] = ()


SPECIAL_FOLDERS = {
    **dict.fromkeys(("tmp", "var/tmp", "run/lock"), 0o1777),
    **dict.fromkeys(("var/local", "var/mail"), 0o2775),
    "root": 0o700,
}
"""Of base-files. An ordinary user who unpacks it gets plain folders, and dpkg leaves those as they are."""


def tidy(root: Path) -> None:
    """Take away what only the installation of the base system needed, and give folders their modes."""
    remove_tree(root / "var/lib/apt/lists")
    (root / "var/lib/apt/lists/partial").mkdir(parents=True)
    for name, mode in SPECIAL_FOLDERS.items():
        if (root / name).is_dir():
            (root / name).chmod(mode)


def empty_dev(root: Path) -> None:
    """Take away device files, which only an administrator could make: every container gets its own.

    The same image gives the same files, times included.
    """
    with Root(root) as tree:
        before = tree.own_status()
        # A link as well, whatever it leads to.
        tree.remove("dev")
        tree.make_folder("dev", 0o755)
        os.utime(root / "dev", (0, 0))
        tree.set_own_times(before)
