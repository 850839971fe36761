"""Program: hides a folder under an empty read-only one (`shadow.py hide FOLDER`), or ends that (`show`).

`mount` itself refuses everybody whose user id is not 0, whatever rights they have in their namespaces.
"""

from pathlib import Path

from cluster import linux
from cluster.programs import module_arguments

MODULE = "cluster.shadow"


def main(what: str, folder: Path) -> None:
    """Hide the folder, or show it again."""
    if what == "hide":
        linux.mount_read_only(folder)
    else:
        linux.unmount(folder)


if __name__ == "__main__":
    what, folder = module_arguments()
    main(what, Path(folder))
