"""Start `argosy_images.run` on a node: `python -I -S start.py --digest sha256:… -- COMMAND`.

If the first word is `data`, start `argosy_images.stage_data`.

All nodes of a job import from one shared file system, so imports make few calls there. Python's `site`
would look through the environment's packages twice for .pth files and missing folders, and its module
search lists folders and tries other file names.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

PACKAGES = Path(__file__).parents[1]
OWN = ("argosy_images", "argosy_common")


class OwnModules:
    """Finds modules of Argosy's packages by their paths, without a search."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the module's file, or None for other packages."""
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
    """Set up imports of Argosy and the environment's packages, and run the program."""
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
