"""The root file system that FROM names: pulled from a registry, or made from the Debian archive.

Registry: udocker pulls and unpacks. Archive: for `debian:<suite>` where no registry is in reach,
mmdebstrap unpacks the minimal system and dpkg configures it inside a container. Neither needs root or
a range of subordinate ids; both need user namespaces only as far as the execution mode does.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from argosy.errors import ArgosyError
from argosy.images import container, tools
from argosy.images.container import DEFAULT_PATH, Container
from argosy.images.engines import choose_mode
from argosy.images.freeze import link_host_files
from argosy.images.hostconfig import HostConfig
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


@dataclass(frozen=True)
class Base:
    """Where a base system came from, and the environment that it sets for its programs."""

    source: Literal["registry", "archive"]
    environment: Mapping[str, str]


def make_base(store: Store, reference: str, root: Path, host: HostConfig, say: Say) -> Base:
    """Fill the empty folder `root` with the file system of `reference`.

    Raises:
        ArgosyError: when neither a registry nor the archive can give it.
    """
    say(f"pulling {reference}")
    environment = _pull(store, Reference.parse(reference), root)
    if environment is not None:
        _add_fakeroot(store, root, host)
        return Base("registry", environment)
    suite = ARCHIVE_REFERENCE.fullmatch(reference)
    if not suite:
        raise ArgosyError(
            f"{reference}: cannot be pulled from here (no network, wrong name or no permission), "
            "and only debian:<suite> can be made from the Debian archive instead"
        )
    say(f"no registry in reach: making Debian {suite[1]} from the Debian archive")
    _bootstrap(store, suite[1], root, host, say)
    return Base("archive", {})


def _pull(store: Store, reference: Reference, root: Path) -> dict[str, str] | None:
    """Let udocker pull the image and unpack it, and take the unpacked tree over.

    Returns the image's environment, or None when it cannot be pulled.
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
        environment = _environment_of(created / "container.json")
        root.rmdir()
        (created / "ROOT").rename(root)
    finally:
        _udocker(store, "rm", "-f", container_name)
        _udocker(store, "rmi", "-f", name)
    return environment


def _environment_of(description: Path) -> dict[str, str]:
    """The `Env` of an image's configuration, as udocker keeps it beside the container."""
    content = json.loads(description.read_text(encoding="utf-8"))
    entries = (content.get("config") or {}).get("Env") or []
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _udocker(store: Store, *arguments: str) -> bool:
    command = [*tools.udocker_command(), "--quiet", *arguments]
    variables = tools.udocker_environment(store)
    try:
        done = subprocess.run(command, env=variables, capture_output=True, timeout=PULL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _bootstrap(store: Store, suite: str, root: Path, host: HostConfig, say: Say) -> None:
    program = tools.require(store, "mmdebstrap", say)
    root.rmdir()
    command = [str(program), "--quiet", "--mode=chrootless", "--variant=extract"]
    command += ["--include=?essential", "--include=?priority(required)"]
    command += ["--include=apt,fakeroot,ca-certificates,usr-is-merged"]
    command += [f"--setup-hook={MERGED_USR}"]
    command += ["--skip=cleanup/apt,download/empty,extract/unlink", suite, str(root)]
    done = subprocess.run(command, env=tools.environment(store), capture_output=True, text=True)
    if done.returncode != 0:
        remove_tree(root)
        reason = [line for line in done.stderr.splitlines() if line.startswith("E:")][:1]
        raise ArgosyError(
            f"debian:{suite}: the Debian archive cannot be used from here: "
            f"{' '.join(reason) or 'mmdebstrap failed'}"
        )
    say("configuring the base system")
    _configure(store, root, host)


def _configure(store: Store, root: Path, host: HostConfig) -> None:
    """Have dpkg install what mmdebstrap unpacked; the packages are still where apt put them."""
    for name in ("passwd", "group"):
        shutil.copyfile(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    install = "dpkg --force-depends --force-unsafe-io --install /var/cache/apt/archives/*.deb"
    output: list[bytes] = []
    outcome = _run_shell(store, root, host, f"fakeroot-sysv {install} && apt-get clean", output)
    if not outcome.ok:
        last = b"".join(output).decode(errors="replace").strip().splitlines()[-3:]
        raise ArgosyError(f"{root}: the base system cannot be configured: {' / '.join(last)}")
    remove_tree(root / "var/lib/apt/lists")
    (root / "var/lib/apt/lists/partial").mkdir(parents=True)


def _add_fakeroot(store: Store, root: Path, host: HostConfig) -> None:
    """Give a Debian-like image the fakeroot that later steps need; others do without, as they are."""
    if not (root / "usr/bin/apt-get").exists() or fakeroot_in(root):
        return
    install = "apt-get update && apt-get install -y --no-install-recommends fakeroot"
    _run_shell(store, root, host, f"{install} && rm -rf /var/lib/apt/lists/*", [])


def _run_shell(
    store: Store, root: Path, host: HostConfig, line: str, output: list[bytes]
) -> container.Outcome:
    link_host_files(root)
    build = Container(
        root,
        ["/bin/sh", "-c", line],
        binds=host.binds,
        environment={**BUILD_VARIABLES, **host.environment},
        writable=True,
        mode=choose_mode(store, root),
    )
    return container.run(store, build, output.append)


def fakeroot_in(root: Path) -> str | None:
    """The image's fakeroot, by the name that works before and after update-alternatives."""
    names = ("usr/bin/fakeroot-sysv", "usr/bin/fakeroot")
    return next((f"/{name}" for name in names if (root / name).exists()), None)


BUILD_VARIABLES = {
    "PATH": DEFAULT_PATH,
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    # Where one id is mapped, giving a file to another fails with EINVAL, which fakeroot passes on.
    "FAKEROOTDONTTRYCHOWN": "1",
}
"""What every build step has unless the Containerfile says otherwise."""
