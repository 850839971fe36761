"""Makes the container tools that udocker needs available, with or without root.

They are the host's, or come with udocker's own tarball, from hosts that many compute networks do not
reach, or are the distribution's packages: installed by root, downloaded and unpacked into the store by an
ordinary user. Nothing outside the store is touched in the latter case.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from argosy_common.errors import ArgosyError, plain
from argosy_images.namespaces import count_ids
from argosy_images.store.scratch import private_folder
from argosy_images.store.store import Store

TARBALL_RELEASE = "1.2.11"
"""The release of udocker's tools whose digest is known; udocker 1.3.17 wants it."""

TARBALL_BLOB = "17f7341a84ea7b25d072fcdb48c8b68570201020"
"""Its digest as git makes it, from the repository in which udocker's authors publish it."""

INSTALL_TIMEOUT_S = 300
"""Seconds to fetch udocker's tarball of some 10 MB, its own retries included."""

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders where distributions put runc and mmdebstrap, often missing in an ordinary user's PATH."""

_PACKAGE_DATABASE = "/var/lib/dpkg"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tools:
    """The container tools of a host, of which some are in the store."""

    store: Store

    def ensure(self, say: Say, bundled: Path | None = None) -> None:
        """Make the container tools available, and proot as far as it can be had here.

        Raises:
            ArgosyError: as `ensure_udocker`, which takes the same arguments.
        """
        self.ensure_udocker(say, bundled)
        self.fetch_proot(say)

    def ensure_udocker(self, say: Say, bundled: Path | None = None) -> None:
        """Install udocker's tools into the store, once.

        Args:
            bundled: a tarball of them that is there already; None: one is fetched, or made of the host's.

        Raises:
            ArgosyError: naming what is missing and what to ask the site for.
        """
        if self._installed():
            return
        with self.store.locked("udocker"):
            if not self._installed() and not (bundled and self._install_bundled(bundled, say)):
                self._install_udocker(say)

    def _install_bundled(self, tarball: Path, say: Say) -> bool:
        """Install the tools of a tarball; whether udocker accepts it."""
        say(f"container tools: using {tarball.name}")
        with private_folder() as (folder, _):
            # udocker takes a space in a path for the end of it.
            link = folder / "tools.tar.gz"
            link.symlink_to(tarball)
            problem = self._install(str(link))
        if problem:
            say(f"container tools: {tarball.name} is not accepted: {problem}")
        return not problem

    def fetch_proot(self, say: Say) -> None:
        """Make proot available as far as that can be done here, for nodes without user namespaces."""
        if self.find_proot():
            return
        try:
            self.require("proot", say)
        except ArgosyError as problem:
            say(f"container tools: nodes without user namespaces could run nothing: {problem}")

    def _installed(self) -> bool:
        return (self.store.udocker / "lib" / "VERSION").is_file()

    def _install_udocker(self, say: Say) -> None:
        # Without curl not even udocker's help can be seen.
        self.require("curl", say)
        say("container tools: fetching udocker's own tarball")
        given = os.environ.get("UDOCKER_TARBALL")
        problem = self._install(given) if given else self._install_published()
        if not problem:
            return
        runtime = self.require_runtime(say)
        say(f"container tools: it is not available here ({problem}); using {runtime}")
        with private_folder() as (folder, _):
            problem = self._install(str(_pack_tools(runtime, folder)))
        if problem:
            raise ArgosyError(f"{self.store.udocker}: udocker does not accept its tools: {problem}")

    def _install_published(self) -> str:
        """Install the tarball that udocker would fetch, verified by its digest, as udocker does not.

        Empty when that went well, else what went wrong last.
        """
        # Imported where it is needed: once for a self.store.
        from udocker.config import Config

        from argosy_images.builder.downloads import DownloadError, download

        wanted, problem = Config.conf["tarball_release"], ""
        if wanted != TARBALL_RELEASE:
            known = f"only {TARBALL_RELEASE} can be verified"
            return f"udocker needs release {wanted} of its tools, but {known}"
        with private_folder() as (folder, _):
            for number, address in enumerate(Config.conf["tarball"].split()):
                tarball = folder / f"{number}.tar.gz"
                try:
                    download(address, tarball)
                except DownloadError as why:
                    problem = str(why)
                    continue
                if _blob_of(tarball) != TARBALL_BLOB:
                    problem = f"{address} is not the file that udocker's authors published"
                    continue
                return self._install(str(tarball))
        return problem

    def udocker_environment(self) -> dict[str, str]:
        """Return the environment in which udocker finds its folder and its tools."""
        return {**self.environment(), "UDOCKER_DIR": str(self.store.udocker)}

    def runtime(self) -> Path | None:
        """Return the runc or crun to use, whichever is there; podman brings one of them."""
        return self.find("runc") or self.find("crun")

    def require_runtime(self, say: Say) -> Path:
        """Return the runc that builds use, or crun where runc cannot be had.

        crun comes last: it refuses hosts with both versions of control groups, which runc does not.

        Raises:
            ArgosyError: when both are missing and cannot be had.
        """
        try:
            return self.require("runc", say)
        except ArgosyError:
            crun = self.find("crun")
            if crun is None:
                raise
            return crun

    def find(self, program: str) -> Path | None:
        """Return a program on PATH, in the system's folders, among unpacked packages or udocker's tools."""
        folders = [os.environ.get("PATH", ""), *SYSTEM_FOLDERS, *map(str, self._unpacked_folders())]
        found = shutil.which(program, path=os.pathsep.join(folders))
        return Path(found) if found else self._shipped(program)

    def find_proot(self) -> Path | None:
        """Return proot, that of udocker's own tools first.

        Debian's is built without a filter of system calls, and stops programs at each of them.
        """
        return self._shipped("proot") or self.find("proot")

    @staticmethod
    def machine() -> str:
        """Return this machine's architecture, as udocker's tools are named."""
        return {"aarch64": "arm64"}.get(platform.machine(), platform.machine())

    def _shipped(self, program: str) -> Path | None:
        """Return a program of udocker's own tools; of several, that for the newest kernels."""
        tools = (self.store.udocker / "bin").glob(f"{program}-{self.machine()}*")
        return max((path for path in tools if os.access(path, os.X_OK)), default=None)

    def require(self, program: str, say: Say, package: str = "") -> Path:
        """Return a program of the distribution's package, installed or unpacked if missing.

        Args:
            package: the package's name, where it is not the program's.

        Raises:
            ArgosyError: when neither works, saying what to ask the site for.
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
            raise ArgosyError(
                f"{program} is missing and cannot be installed from here ({reason}): ask the site for the "
                f"package '{package or program}'{_brought_by(program)}, or put the program on PATH"
            )
        return found

    def environment(self) -> dict[str, str]:
        """Return the environment in which unpacked programs find each other and their libraries."""
        unpacked = self.store.tools / "unpacked"
        folders = [*map(str, self._unpacked_folders()), os.environ.get("PATH", ""), *SYSTEM_FOLDERS]
        found = self.libraries()
        perl = [*unpacked.glob("usr/share/perl*/*"), *unpacked.glob("usr/share/perl5")]
        perl += unpacked.glob("usr/lib/*-linux-gnu/perl*/*")
        return {
            **os.environ,
            "PATH": os.pathsep.join(folders),
            # Not every program looks for another one where TMPDIR names a folder that is gone.
            "TMPDIR": gettempdir(),
            **({"LD_LIBRARY_PATH": os.pathsep.join(map(str, found))} if found else {}),
            **({"PERL5LIB": os.pathsep.join(map(str, perl))} if perl else {}),
        }

    def runtime_environment(self) -> dict[str, str]:
        """Return the environment of runc, which starts on every node: the store is looked through last.

        Libraries of the store are searched only where runc's own is among them: each program that starts
        would look for all of its own there, on a file system that all nodes share.
        """
        found = [folder for folder in self.libraries() if any(folder.glob("libseccomp.so.*"))]
        folders = [os.environ.get("PATH", ""), *SYSTEM_FOLDERS, *map(str, self._unpacked_folders())]
        return {
            **os.environ,
            "PATH": os.pathsep.join(filter(None, folders)),
            "TMPDIR": gettempdir(),
            **({"LD_LIBRARY_PATH": os.pathsep.join(map(str, found))} if found else {}),
        }

    def libraries(self) -> list[Path]:
        """Return the folders of unpacked programs' libraries."""
        unpacked = self.store.tools / "unpacked"
        # Packages from before Debian 13 hold some of them outside of /usr.
        return [*unpacked.glob("usr/lib/*-linux-gnu"), *unpacked.glob("lib/*-linux-gnu")]

    def _unpacked_folders(self) -> list[Path]:
        return [
            self.store.tools / "unpacked" / name for name in ("usr/sbin", "usr/bin", "sbin", "bin")
        ]

    def _install(self, tarball: str | None) -> str:
        """Let udocker install its tools; empty when they are there afterwards, else what it said last."""
        variables = self.udocker_environment()
        if tarball:
            variables["UDOCKER_TARBALL"] = tarball
        command = [*udocker_command(), "--quiet", "install"]
        try:
            done = subprocess.run(
                command, env=variables, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {INSTALL_TIMEOUT_S} s"
        if self._installed():
            return ""
        return (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]

    def _fetch_package(self, package: str, say: Say) -> str:
        """Install or unpack the package, where that can be done; what went wrong otherwise."""
        if _may_install() and shutil.which("apt-get"):
            say(f"container tools: installing {package} with apt-get")
            if not _apt(["install", package]):
                return ""
            _apt(["update"])
            return _apt(["install", package])
        say(f"container tools: unpacking {package} and its dependencies into {self.store.tools}")
        return unpack_packages(self.store.tools, package)


def _blob_of(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def udocker_command() -> list[str]:
    """Return the command of this environment's udocker, which refuses root unless it is told otherwise."""
    root = ["--allow-root"] if os.geteuid() == 0 else []
    return [sys.executable, "-m", "udocker.maincmd", *root]


def _brought_by(program: str) -> str:
    return " or 'podman', which brings it or crun" if program == "runc" else ""


def _pack_tools(runtime: Path, folder: Path) -> Path:
    """Return a tarball in the layout that udocker installs: udocker_dir/{bin,lib,doc}."""
    from udocker.config import Config

    version = folder / "VERSION"
    version.write_text(f"{Config.conf['tarball_release']}\n", encoding="ascii")
    tarball = folder / "udockertools.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        name = "crun" if runtime.name.startswith("crun") else "runc"
        archive.add(runtime.resolve(), f"udocker_dir/bin/{name}-{Tools.machine()}")
        archive.add(version, "udocker_dir/lib/VERSION")
        archive.add(version, "udocker_dir/doc/VERSION")
    return tarball


def _may_install() -> bool:
    """Return whether we are root of the machine, and not only of an ordinary user's namespace.

    Root of such a namespace has one id, to which the system's files do not belong.
    """
    return os.geteuid() == 0 and count_ids() > 1 and os.access(_PACKAGE_DATABASE, os.W_OK)


def unpack_packages(folder: Path, *packages: str) -> str:
    """Download packages with whatever they need and the system lacks, and unpack all of it.

    Args:
        folder: takes the files, in `unpacked/`, and apt's own lists where the system has none.

    Returns:
        What went wrong; empty when all of it is there.
    """
    if not shutil.which("apt-get"):
        return "there is no apt-get"
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    private = ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}"]
    # As root of a namespace apt would change to its own user, which that namespace lacks.
    private += ["-o", "APT::Sandbox::User=root"]
    # Once more where they are installed: their programs were not found.
    wanted = [*private, "--download-only", "--reinstall", "install", *packages]
    if _apt(wanted):
        # The machine has no package lists, or old ones: keep lists of our own.
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        own_lists = [*private, "-o", f"Dir::State::lists={lists}"]
        if problem := _apt([*own_lists, "update"]) or _apt([*own_lists, *wanted]):
            return problem
    target = folder / "unpacked"
    target.mkdir(exist_ok=True)
    for archive in sorted(archives.glob("*.deb")):
        if problem := _run_quietly(["dpkg-deb", "--extract", str(archive), str(target)]):
            return problem
        archive.unlink()
    return ""


def _apt(arguments: Sequence[str]) -> str:
    return _run_quietly(["apt-get", "--yes", "-qq", "--no-install-recommends", *arguments])


def _run_quietly(command: Sequence[str]) -> str:
    """Empty when the command went well, else the line of what it said that tells why not."""
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, errors="replace")
    return "" if done.returncode == 0 else first_error(done.stderr) or f"{command[0]} failed"


def first_error(said: str) -> str:
    """Return the first line by which apt (`E:`) or another program names an error; empty without one."""
    lines = [line.strip() for line in plain(said).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("E:")), lines[0] if lines else "")
