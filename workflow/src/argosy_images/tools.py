"""Find or install the container tools, with or without root.

Tools are the host's own, from udocker's tarball, or from the distribution's packages. Root installs
packages; an ordinary user downloads and unpacks them into the store and changes nothing else. Many compute
networks do not reach the hosts of udocker's tarball.
"""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from argosy_common.errors import ArgosyError, plain
from argosy_images.namespaces import count_ids
from argosy_images.store.scratch import private_folder
from argosy_images.store.store import Store

TARBALL_RELEASE = "1.2.11"
"""Release of udocker's tools with a known digest; udocker 1.3.17 requires it."""

TARBALL_BLOB = "17f7341a84ea7b25d072fcdb48c8b68570201020"
"""Git's blob id of the tarball in the repository of udocker's authors."""

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of runc and mmdebstrap in some distributions, often missing in a user's PATH."""

_PACKAGE_DATABASE = "/var/lib/dpkg"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tools:
    """The container tools of a host and a store."""

    store: Store

    def ensure_udocker(self, say: Say, bundled: Path | None = None) -> None:
        """Install udocker's tools into the store once.

        Args:
            bundled: an existing tarball of the tools; None: download one, or copy the host's runc or crun.

        Raises:
            ArgosyError: with the missing tool and the package to request from the site.
        """
        if self._installed():
            return
        with self.store.locked("udocker"):
            if not self._installed() and not (bundled and self._install_bundled(bundled, say)):
                self._install_udocker(say)

    def _install_bundled(self, tarball: Path, say: Say) -> bool:
        """Install the tools of a tarball; return whether it can be used."""
        say(f"container tools: using {tarball.name}")
        try:
            self._unpack_tools(tarball)
        except ArgosyError as problem:
            say(f"container tools: {tarball.name} is not accepted: {problem.problem}")
            return False
        return True

    def fetch_proot(self, say: Say) -> None:
        """Install proot if possible, for nodes without user namespaces."""
        if self.find_proot():
            return
        try:
            self.require("proot", say)
        except ArgosyError as problem:
            say(f"container tools: nodes without user namespaces cannot run containers: {problem}")

    def _installed(self) -> bool:
        return (self.store.udocker / "lib" / "VERSION").is_file()

    def _install_udocker(self, say: Say) -> None:
        say("container tools: fetching udocker's own tarball")
        try:
            with private_folder() as (folder, _):
                self._unpack_tools(_fetch_tarball(folder))
        except ArgosyError as problem:
            runtime = self.require_runtime(say)
            say(
                f"container tools: the tarball is not available ({problem.problem}); using {runtime}"
            )
            self._copy_runtime(runtime)

    def _unpack_tools(self, tarball: Path) -> None:
        """Install the tools of a tarball, as `udocker install` does.

        Raises:
            ArgosyError: if it is damaged, or holds other files.
        """
        with private_folder() as (folder, _):
            command = ["tar", "--extract", "--force-local", f"--file={tarball}"]
            if problem := _run_quietly([*command, "--directory", str(folder)]):
                raise ArgosyError(f"{tarball}: {problem}")
            tools, target = folder / "udocker_dir", self.store.udocker
            if not (tools / "lib" / "VERSION").is_file():
                raise ArgosyError(f"{tarball}: has no udocker_dir/lib/VERSION")
            target.mkdir(exist_ok=True, mode=0o700)
            version = Path("lib/VERSION")
            for place in filter(Path.is_dir, (tools / "bin", tools / "doc", tools / "lib")):
                shutil.copytree(
                    place,
                    target / place.name,
                    symlinks=True,
                    ignore=shutil.ignore_patterns(version.name),
                    copy_function=_copy_program,
                    dirs_exist_ok=True,
                )
            # It marks complete tools.
            _copy_program(tools / version, target / version)

    def _copy_runtime(self, runtime: Path) -> None:
        """Make the host's runc or crun the store's tools, which a bundle contains."""
        for name in ("bin", "lib"):
            (self.store.udocker / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        name = "crun" if runtime.name.startswith("crun") else "runc"
        _copy_program(runtime, self.store.udocker / "bin" / f"{name}-{self.machine()}")
        (self.store.udocker / "lib" / "VERSION").write_text(
            f"{TARBALL_RELEASE}\n", encoding="ascii"
        )

    def runtime(self) -> Path | None:
        """Return runc, else crun, or None; podman's package installs one of them."""
        return self.find("runc") or self.find("crun")

    def require_runtime(self, say: Say) -> Path:
        """Return runc for builds, installed if missing, else crun.

        crun comes last: it rejects hosts with both versions of control groups.
        """
        try:
            return self.require("runc", say)
        except ArgosyError:
            crun = self.find("crun")
            if crun is None:
                raise
            return crun

    def find(self, program: str) -> Path | None:
        """Find a program on PATH, in system folders, unpacked packages or udocker's tools."""
        folders = [os.environ.get("PATH", ""), *SYSTEM_FOLDERS, *map(str, self._unpacked_folders())]
        found = shutil.which(program, path=os.pathsep.join(folders))
        return Path(found) if found else self._shipped(program)

    def find_proot(self) -> Path | None:
        """Find proot, preferably udocker's: Debian's build traces each system call, without a filter."""
        return self._shipped("proot") or self.find("proot")

    @staticmethod
    def machine() -> str:
        """Return this machine's architecture in the file names of udocker's tools."""
        return {"aarch64": "arm64"}.get(platform.machine(), platform.machine())

    def _shipped(self, program: str) -> Path | None:
        """Find a program of udocker's tools; of several, the build for the newest kernels."""
        tools = (self.store.udocker / "bin").glob(f"{program}-{self.machine()}*")
        return max((path for path in tools if os.access(path, os.X_OK)), default=None)

    def require(self, program: str, say: Say, package: str = "") -> Path:
        """Find a program, or install or unpack its package.

        Args:
            package: the package's name if it differs from the program's.

        Raises:
            ArgosyError: if that fails, with the package to request from the site.
        """
        found = self.find(program)
        if found:
            return found
        with self.store.locked("packages"):
            found = self.find(program)
            reason = "" if found else self._fetch_package(package or program, say)
        found = found or self.find(program)
        if not found:
            reason = reason or "its package does not contain it"
            other = " or 'podman', which brings it or crun" if program == "runc" else ""
            raise ArgosyError(
                f"{program} is missing and cannot be installed from here ({reason}): ask the site for the "
                f"package '{package or program}'{other}, or put the program on PATH"
            )
        return found

    def environment(self) -> dict[str, str]:
        """Return the environment for unpacked programs: PATH, libraries and Perl modules."""
        folders = [*map(str, self._unpacked_folders()), os.environ.get("PATH", ""), *SYSTEM_FOLDERS]
        perl = self._unpacked("usr/share/perl*/*", "usr/share/perl5", "usr/lib/*-linux-gnu/perl*/*")
        found = {"PERL5LIB": os.pathsep.join(map(str, perl))} if perl else {}
        return _environment(folders, self.libraries()) | found

    def runtime_environment(self) -> dict[str, str]:
        """Return the environment for runc on nodes, with the store's folders last on PATH.

        The store's libraries are included only if runc's is among them: each start would search there, on
        the shared file system.
        """
        found = [folder for folder in self.libraries() if any(folder.glob("libseccomp.so.*"))]
        folders = [os.environ.get("PATH", ""), *SYSTEM_FOLDERS, *map(str, self._unpacked_folders())]
        return _environment(folders, found)

    def libraries(self) -> list[Path]:
        """Return the library folders of unpacked packages."""
        # Before Debian 13, some libraries are outside of /usr.
        return self._unpacked("usr/lib/*-linux-gnu", "lib/*-linux-gnu")

    def _unpacked_folders(self) -> list[Path]:
        return self._unpacked("usr/sbin", "usr/bin", "sbin", "bin")

    def _unpacked(self, *patterns: str) -> list[Path]:
        """Return matching folders of all unpacked packages; earlier versions had one folder for all."""
        return [
            path
            for pattern in patterns
            for top in ("packages/*", "unpacked")
            for path in sorted(self.store.tools.glob(f"{top}/{pattern}"))
        ]

    def _fetch_package(self, package: str, say: Say) -> str:
        """Install or unpack the package; return an empty string or the error."""
        if _may_install() and shutil.which("apt-get"):
            say(f"container tools: installing {package} with apt-get")
            if not _apt(["install", package]):
                return ""
            _apt(["update"])
            return _apt(["install", package])
        say(f"container tools: unpacking {package} and its dependencies into {self.store.tools}")
        return unpack_packages(self.store.tools, package)


def _environment(folders: Sequence[str], libraries: Sequence[Path]) -> dict[str, str]:
    found = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))} if libraries else {}
    # Some programs fail if TMPDIR names a missing folder.
    own = {"PATH": os.pathsep.join(filter(None, folders)), "TMPDIR": gettempdir()}
    return {**os.environ, **own, **found}


def _blob_of(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _copy_program(source: str | Path, target: str | Path) -> None:
    """Copy a file as an executable, also over a program that runs."""
    partial = f"{target}.partial"
    shutil.copyfile(source, partial)
    Path(partial).chmod(0o700)
    Path(partial).replace(target)


def _fetch_tarball(folder: Path) -> Path:
    """Return the tarball of UDOCKER_TARBALL, or download the published one to `folder` and verify it.

    Raises:
        ArgosyError: with the last problem.
    """
    # Imported late: needed once per store.
    from udocker.config import Config

    from argosy_images.builder.downloads import DownloadError, download

    given, wanted = os.environ.get("UDOCKER_TARBALL"), Config.conf["tarball_release"]
    if given and "://" not in given:
        return Path(given)
    if not given and wanted != TARBALL_RELEASE:
        known = f"only {TARBALL_RELEASE} can be verified"
        raise ArgosyError(f"udocker needs release {wanted} of its tools, but {known}")
    problem = ""
    for number, address in enumerate([given] if given else Config.conf["tarball"].split()):
        tarball = folder / f"{number}.tar.gz"
        try:
            download(address, tarball)
        except DownloadError as why:
            problem = str(why)
            continue
        if given or _blob_of(tarball) == TARBALL_BLOB:
            return tarball
        problem = f"{address} is not the file that udocker's authors published"
    raise ArgosyError(problem)


def _may_install() -> bool:
    """Return whether this process is the machine's root, not root of a user's namespace with one id."""
    return os.geteuid() == 0 and count_ids() > 1 and os.access(_PACKAGE_DATABASE, os.W_OK)


def unpack_packages(folder: Path, *packages: str) -> str:
    """Download packages with their missing dependencies, and unpack them; one caller at a time.

    Args:
        folder: for the files, in `packages/` and the first package's name, complete as soon as it exists;
            also for package lists if the system has none.

    Returns:
        The error, or an empty string.
    """
    if not shutil.which("apt-get"):
        return "there is no apt-get"
    target, partial = folder / "packages" / packages[0], folder / "unpacking"
    if target.is_dir():
        return ""
    # Of an interrupted call.
    shutil.rmtree(partial, ignore_errors=True)
    root, archives = partial / "root", partial / "archives"
    for needed in (target.parent, root, archives / "partial"):
        needed.mkdir(parents=True, exist_ok=True)
    problem = _download(folder, archives, packages)
    for archive in sorted(archives.glob("*.deb")):
        problem = problem or _run_quietly(["dpkg-deb", "--extract", str(archive), str(root)])
    if not problem:
        root.rename(target)
    shutil.rmtree(partial, ignore_errors=True)
    return problem


def _download(folder: Path, archives: Path, packages: Sequence[str]) -> str:
    """Download packages to `archives`; return the error, or an empty string."""
    private = ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}"]
    # As root of a namespace, apt would switch to its own user, which the namespace lacks.
    private += ["-o", "APT::Sandbox::User=root"]
    # --reinstall, since the programs were not found although the package may be installed.
    wanted = [*private, "--download-only", "--reinstall", "install", *packages]
    if not _apt(wanted):
        return ""
    # The machine's package lists are missing or outdated: download own ones.
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    own_lists = [*private, "-o", f"Dir::State::lists={lists}"]
    return _apt([*own_lists, "update"]) or _apt([*own_lists, *wanted])


def _apt(arguments: Sequence[str]) -> str:
    return _run_quietly(["apt-get", "--yes", "-qq", "--no-install-recommends", *arguments])


def _run_quietly(command: Sequence[str]) -> str:
    """Run a command; return an empty string, or its first error."""
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, errors="replace")
    return "" if done.returncode == 0 else first_error(done.stderr) or f"{command[0]} failed"


def first_error(said: str) -> str:
    """Return apt's first error (`E:`) in an output, else the first line, or an empty string."""
    lines = [line.strip() for line in plain(said).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("E:")), lines[0] if lines else "")
