"""The root file system that FROM names: pulled from a registry, or made from the Debian archive.

Registry: udocker pulls and unpacks. Archive: for `debian:<suite>` where no registry is in reach,
mmdebstrap unpacks the minimal system, which dpkg then configures as a step of the build. Neither needs
root or a range of subordinate ids.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images import tools
from argosy.images.build.cache import CachedBase
from argosy.images.config import ImageConfig
from argosy.images.container import DEFAULT_PATH
from argosy.images.store import Store, remove_tree

Say = Callable[[str], None]

ARCHIVE_REFERENCE = re.compile(r"(?:docker\.io/)?(?:library/)?debian:([a-z]+)(?:-slim)?")
PULL_TIMEOUT_S = 1800

MERGED_USR = (
    'for folder in bin sbin lib lib64; do mkdir -p "$1/usr/$folder"; '
    'ln -s "usr/$folder" "$1/$folder"; done'
)


@dataclass(frozen=True)
class Reference:
    """`[registry/]repository[:tag]` as people write it after FROM."""

    registry: str | None
    repository: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Read a reference; the first part is a registry when it looks like a host."""
        first, slash, rest = text.partition("/")
        is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
        name = rest if is_host else text
        repository, _, tag = name.partition(":")
        registry = first if is_host and first != "docker.io" else None
        if "/" not in repository:
            repository = f"library/{repository}"
        return cls(registry, repository, tag or "latest")

    @property
    def registry_url(self) -> str | None:
        """The registry's address; loopback is spoken to without TLS, as docker and podman do."""
        if self.registry is None:
            return None
        host = self.registry.partition(":")[0]
        scheme = "http" if host in ("localhost", "127.0.0.1") else "https"
        return f"{scheme}://{self.registry}"


CONFIGURE = (
    "dpkg --force-depends --force-unsafe-io --install /var/cache/apt/archives/*.deb"
    " && apt-get clean"
)
"""Has dpkg install what mmdebstrap unpacked; the packages are still where apt put them."""


def fetch(store: Store, reference: str, root: Path, say: Say) -> CachedBase:
    """Make the new folder `root`, the file system of `reference`.

    From the archive it has yet to be configured (`CONFIGURE`, then `tidy`).

    Raises:
        ArgosyError: when neither a registry nor the archive can give it.
    """
    say(f"pulling {reference}")
    config = _pull(store, Reference.parse(reference), root)
    if config is not None:
        return CachedBase(reference=reference, source="registry", config=config)
    suite = ARCHIVE_REFERENCE.fullmatch(reference)
    if not suite:
        raise ArgosyError(
            f"{reference}: cannot be pulled from here (no network, wrong name or no permission), "
            "and only debian:<suite> can be made from the Debian archive instead"
        )
    say(f"no registry in reach: making Debian {suite[1]} from the Debian archive")
    _bootstrap(store, suite[1], root, say)
    config = ImageConfig(environment={"PATH": DEFAULT_PATH}, cmd=("bash",))
    return CachedBase(reference=reference, source="archive", config=config)


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
    """Take away device files, which only an administrator could make: every container gets its own."""
    if (root / "dev").is_dir() and not (root / "dev").is_symlink():
        remove_tree(root / "dev")
    (root / "dev").mkdir(exist_ok=True)


def _pull(store: Store, reference: Reference, root: Path) -> ImageConfig | None:
    """Let udocker pull the image and unpack it, and take the unpacked tree over.

    Returns the image's configuration, or None when it cannot be pulled.
    """
    name = f"{reference.repository}:{reference.tag}"
    registry = [f"--registry={reference.registry_url}"] if reference.registry_url else []
    if not _udocker(store, "pull", *registry, name):
        return None
    container_name = f"argosy-base-{os.getpid()}"
    try:
        if not _udocker(store, "create", f"--name={container_name}", name):
            return None
        created = (store.udocker / "containers" / container_name).resolve()
        content = json.loads((created / "container.json").read_text(encoding="utf-8"))
        (created / "ROOT").rename(root)
    finally:
        _udocker(store, "rm", "-f", container_name)
        _udocker(store, "rmi", "-f", name)
    return ImageConfig.from_oci(content.get("config") or {})


def _udocker(store: Store, *arguments: str) -> bool:
    command = [*tools.udocker_command(), "--quiet", *arguments]
    variables = tools.udocker_environment(store)
    try:
        done = subprocess.run(command, env=variables, capture_output=True, timeout=PULL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _bootstrap(store: Store, suite: str, root: Path, say: Say) -> None:
    program = tools.require(store, "mmdebstrap", say)
    command = [str(program), "--quiet", "--mode=chrootless", "--variant=extract"]
    command += ["--include=?essential", "--include=?priority(required)"]
    command += ["--include=apt,ca-certificates,usr-is-merged"]
    command += [f"--setup-hook={MERGED_USR}"]
    command += ["--skip=cleanup/apt,download/empty,extract/unlink", suite, str(root)]
    # Folders of a strict umask would be nobody's but root's in the image.
    done = subprocess.run(
        command, env=tools.environment(store), capture_output=True, text=True, umask=0o022
    )
    if done.returncode != 0:
        remove_tree(root)
        reason = [line for line in done.stderr.splitlines() if line.startswith("E:")][:1]
        raise ArgosyError(
            f"debian:{suite}: the Debian archive cannot be used from here: "
            f"{' '.join(reason) or 'mmdebstrap failed'}"
        )
    # dpkg's maintainer scripts look up users before the package with the lists is configured.
    for name in ("passwd", "group"):
        shutil.copyfile(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
