"""A conda channel: packages that a test makes, in the layout that a server gives them."""

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pip
import zstandard


def _tar(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str) and content.startswith("->"):
                member.type, member.linkname = tarfile.SYMTYPE, content[2:]
                archive.addfile(member)
                continue
            data = content.encode() if isinstance(content, str) else content
            member.size, member.mode = len(data), 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _described(files: Mapping[str, str | bytes]) -> list[dict[str, object]]:
    found = []
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        is_link = data.startswith(b"->")
        kind = "softlink" if is_link else "hardlink"
        digest = hashlib.sha256(b"" if is_link else data).hexdigest()
        size = 0 if is_link else len(data)
        found.append({"_path": name, "path_type": kind, "sha256": digest, "size_in_bytes": size})
    return found


class CondaChannel:
    """A folder with the layout of a channel."""

    def __init__(self, folder: Path) -> None:
        """Make it without packages."""
        self.folder = folder
        self._index: dict[str, dict[str, dict[str, dict[str, object]]]] = {}
        for subdir in ("noarch", "linux-64"):
            self._index[subdir] = {"packages": {}, "packages.conda": {}}
            self._write(subdir)

    def add(
        self,
        name: str,
        version: str,
        files: Mapping[str, str | bytes],
        *needs: str,
        noarch: str | None = None,
        ending: str = ".conda",
    ) -> None:
        """Add a package in one of the two formats; `noarch` is python or generic."""
        subdir = "noarch" if noarch else "linux-64"
        about: dict[str, object] = {
            "name": name,
            "version": version,
            "build": "0",
            "build_number": 0,
            "depends": [*needs],
            "subdir": subdir,
            **({"noarch": noarch} if noarch else {}),
        }
        info = {
            "info/index.json": json.dumps(about),
            "info/paths.json": json.dumps({"paths": _described(files), "paths_version": 1}),
            "info/files": "".join(f"{path}\n" for path in files),
        }
        if noarch == "python":
            linked = {"noarch": {"type": "python"}, "package_metadata_version": 1}
            info["info/link.json"] = json.dumps(linked)
        stem = f"{name}-{version}-0"
        path = self.folder / subdir / f"{stem}{ending}"
        if ending == ".conda":
            pack = zstandard.ZstdCompressor().compress
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
                archive.writestr(f"pkg-{stem}.tar.zst", pack(_tar(files)))
                archive.writestr(f"info-{stem}.tar.zst", pack(_tar(info)))
        else:
            path.write_bytes(bz2.compress(_tar({**info, **files})))
        data = path.read_bytes()
        about |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        about |= {"md5": hashlib.md5(data, usedforsecurity=False).hexdigest()}
        kind = "packages.conda" if ending == ".conda" else "packages"
        self._index[subdir][kind][path.name] = about
        self._write(subdir)

    def add_python(self, version: str, base: str) -> None:
        """Add a Python that is a virtual environment of the image's own, and pip for it."""
        about = f"home = {Path(base).parent}\ninclude-system-site-packages = false\n"
        files = {"bin/python": f"->{base}", "bin/python3": "->python", "pyvenv.cfg": about}
        self.add("python", f"{version}.0", files)
        folder = Path(pip.__file__).parent
        modules = {
            f"site-packages/pip/{path.relative_to(folder)}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        self.add("pip", pip.__version__, modules, "python", noarch="python", ending=".tar.bz2")

    def _write(self, subdir: str) -> None:
        path = self.folder / subdir / "repodata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {"info": {"subdir": subdir}, **self._index[subdir], "repodata_version": 1}
        path.write_text(json.dumps(about))
