"""Starts `argosy_images.run` on a node: `python -I -S start.py --digest sha256:… -- COMMAND`.

Or `argosy_images.stage_data`, if the first word is `data`.

Each node of a job imports it from a file system that all share, so it asks that for little. Python's search
for packages (`site`) looks through those of the environment twice, for .pth files and for folders that are
not there; its search for a module lists folders and asks for compiled ones by other names.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

PACKAGES = Path(__file__).parents[1]
OWN = ("argosy_images", "argosy_common")


class OwnModules:
    """Finds the modules of this package, and those that it shares, where they lie."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where a module is read from; None: it is of another package."""
        parts = name.split(".")
        if parts[0] not in OWN:
            return None
        place = PACKAGES.joinpath(*parts)
        if place.is_dir():
            folders = [str(place)]
            return spec_from_file_location(
                name, place / "__init__.py", submodule_search_locations=folders
            )
        return spec_from_file_location(name, f"{place}.py")


def main() -> int:
    """Import from the package that this file is of, and from the environment's packages."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(Path(sys.executable).parents[1] / "lib" / python / "site-packages"))
    sys.meta_path.insert(0, OwnModules())

    if sys.argv[1:2] == ["data"]:
        from argosy_images.stage_data import main as stage

        return stage(sys.argv[2:])

    from argosy_images.run import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
