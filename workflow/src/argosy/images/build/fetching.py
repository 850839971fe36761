"""Fetches the root file system that FROM names: pulled from a registry, or made from the Debian archive.

Registry: its layers are unpacked to one tree. Archive: for `debian:<suite>` where no registry is in reach,
mmdebstrap unpacks the minimal system, which dpkg then configures as a step of the build. Neither needs
root or a range of subordinate ids. Most builds have their bases and do without this module, which brings
the whole client of registries along.
"""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images import tools
from argosy.images.build.base import Fetched
from argosy.images.build.cache import CachedBase
from argosy.images.config import ImageConfig
from argosy.images.container import DEFAULT_PATH
from argosy.images.exchange.incoming import describe
from argosy.images.exchange.opening import Archive, Folder
from argosy.images.exchange.proving import config_of, unpack_layer
from argosy.images.exchange.rights import unhindered
from argosy.images.flatten import flatten
from argosy.images.layers import Layer
from argosy.images.registry.client import Client
from argosy.images.registry.errors import UnreachableError
from argosy.images.registry.patience import Patience
from argosy.images.registry.pulling import pull
from argosy.images.registry.reference import Reference
from argosy.images.store import Store, remove_tree

Say = Callable[[str], None]

ARCHIVE_REFERENCE = re.compile(r"(?:docker\.io/)?(?:library/)?debian:([a-z]+)(?:-slim)?")

MERGED_USR = (
    'for folder in bin sbin lib lib64; do mkdir -p "$1/usr/$folder"; '
    'ln -s "usr/$folder" "$1/$folder"; done'
)


def fetch(store: Store, reference: str, root: Path, say: Say) -> Fetched:
    """Make the new folder `root`, the file system of `reference`.

    From the archive it has yet to be configured (`base.CONFIGURE`, then `base.tidy`).

    Raises:
        ArgosyError: when neither a registry nor the archive can give it.
    """
    suite = ARCHIVE_REFERENCE.fullmatch(reference)
    client = Client(Reference.parse(reference), Patience(say=say))
    say(f"asking {client.reference.host} for {reference}")
    try:
        # Where packets get lost without a word, a second try would only be a longer wait.
        client.reach(tries=1 if suite else None)
    except UnreachableError as problem:
        if not suite:
            raise ArgosyError(
                f"{problem}; only debian:<suite> can be made without a registry, from the Debian archive"
            ) from None
        say(f"no registry in reach ({problem}): making Debian {suite[1]} from the Debian archive")
        _bootstrap(store, suite[1], root, say)
        config = ImageConfig(environment={"PATH": DEFAULT_PATH}, cmd=("bash",))
        return Fetched(CachedBase(reference=reference, source="archive", config=config))
    return _pull(store, client, root, say)


def _pull(store: Store, client: Client, root: Path, say: Say) -> Fetched:
    pulled = pull(store, client, root.with_name(f"{root.name}.pulled"), say)
    archive = Folder(pulled.folder, str(pulled.reference))
    text = unhindered(lambda: _unpack(archive, root).model_dump_json())
    config = ImageConfig.model_validate_json(text)
    base = CachedBase(reference=str(pulled.reference), source="registry", config=config)
    return Fetched(base, pulled.cached)


def _unpack(archive: Archive, root: Path) -> ImageConfig:
    """Make one tree of all layers; the image's configuration."""
    image = describe(archive)
    config = config_of(archive, image)
    layers: list[Layer] = []
    for number, layer in enumerate(image.layers):
        diff = root.with_name(f"{root.name}.layer-{number}")
        layers.append(Layer.of(diff, unpack_layer(archive, layer, diff, layers)))
    flatten(layers, root)
    return config


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
    if os.geteuid() == 0:
        _make_own(root)
    # dpkg's maintainer scripts look up users before the package with the lists is configured.
    for name in ("passwd", "group"):
        shutil.copyfile(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)


def _make_own(root: Path) -> None:
    """Give root all that belongs to others, as it does where an ordinary user makes the base.

    In a build there is one user and one group; what is another's could not be copied with its mode.
    """
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            status = path.lstat()
            if (status.st_uid, status.st_gid) == (0, 0):
                continue
            os.lchown(path, 0, 0)
            if not path.is_symlink():
                # Another owner costs a file its setuid and setgid bits.
                path.chmod(stat.S_IMODE(status.st_mode))
