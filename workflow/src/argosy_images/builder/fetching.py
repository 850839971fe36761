"""Fetch the root file system that FROM names.

A base comes from a registry. If no registry can be reached, tags of Debian (`debian:bookworm`,
`debian:12`, `debian`) are built from the Debian archive: mmdebstrap unpacks the minimal system, and dpkg
configures it as a step of the build. Neither needs root or subordinate ids. The module loads the registry
client, so builds with cached bases do not import it.
"""

import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from urllib.parse import unquote

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError, plain
from argosy_images import tools
from argosy_images.builder.cache import CachedBase
from argosy_images.builder.recipe import FILES
from argosy_images.engines.models import DEFAULT_PATH
from argosy_images.interchange.importing import use_file
from argosy_images.interchange.incoming import IncomingImage, describe
from argosy_images.interchange.opening import Archive, Folder
from argosy_images.interchange.streams import Say
from argosy_images.interchange.unpacking import config_of, unpack_layer
from argosy_images.namespaces import count_ids, unhindered
from argosy_images.oci import ImageConfig
from argosy_images.registry.client import Client
from argosy_images.registry.pulling import pull, reach
from argosy_images.registry.reference import DOCKER_HUB, Reference, split_source
from argosy_images.registry.retry import Patience, UnreachableError
from argosy_images.rootfs.flatten import flatten
from argosy_images.rootfs.layers import Layer
from argosy_images.rootfs.rooted import Root
from argosy_images.store.store import Store

CONFIGURE = (
    "dpkg --force-depends --force-unsafe-io --install /var/cache/apt/archives/*.deb"
    " && apt-get clean"
)
"""Command that configures the packages that mmdebstrap unpacked; their files are still in apt's cache."""


@dataclass(frozen=True)
class Fetched:
    """A base that has been fetched to a folder.

    Args:
        downloads: files to delete when the base is in the cache.
    """

    base: CachedBase
    downloads: tuple[Path, ...] = ()


SPECIAL_FOLDERS = {
    **dict.fromkeys(("tmp", "var/tmp", "run/lock"), 0o1777),
    **dict.fromkeys(("var/local", "var/mail"), 0o2775),
    "root": 0o700,
}
"""Modes of folders of base-files: an ordinary user unpacks them without, and dpkg does not set them."""


def tidy(root: Path) -> None:
    """Delete apt's lists, and set the modes of SPECIAL_FOLDERS."""
    remove_tree(root / "var/lib/apt/lists")
    (root / "var/lib/apt/lists/partial").mkdir(parents=True)
    for name, mode in SPECIAL_FOLDERS.items():
        if (root / name).is_dir():
            (root / name).chmod(mode)


def empty_dev(root: Path) -> None:
    """Empty /dev and fix its mtime: device files need a real root, and containers bring their own /dev."""
    with Root(root) as tree:
        before = tree.own_status()
        # /dev may be a link.
        tree.remove("dev")
        tree.make_folder("dev", 0o755)
        os.utime(root / "dev", (0, 0))
        tree.set_own_times(before)


_TAG = re.compile(r"([a-z]+|[0-9]+)(-slim)?")
SUITES = {
    "8": "jessie",
    "9": "stretch",
    "10": "buster",
    "11": "bullseye",
    "12": "bookworm",
    "13": "trixie",
    "14": "forky",
    "15": "duke",
    "latest": "stable",
}
"""Release names of the Debian archive by registry tag."""
_CODENAME = re.compile(r"^Codename: ([a-z]+)$", re.MULTILINE)
_FULL = re.compile(r"^.*(?:No space left on device|Disk quota exceeded).*$", re.MULTILINE)

MERGED_USR = (
    'for folder in bin sbin lib lib64; do mkdir -p "$1/usr/$folder"; '
    'ln -s "usr/$folder" "$1/$folder"; done'
)


def fetch(store: Store, reference: str, root: Path, say: Say) -> Fetched:
    """Create the folder `root` with the file system of `reference`.

    A base from Debian's archive is not yet configured (`CONFIGURE`, then `tidy`).

    Raises:
        ArgosyError: if neither a registry nor the archive has it, or a file is damaged.
    """
    if reference.startswith(FILES):
        return _take_file(store, reference.removeprefix(FILES), root, say)
    wanted = Reference.parse(reference)
    suite = archive_suite(wanted)
    say(f"asking {wanted.host} for {reference}")
    try:
        # If a firewall drops packets, a second try only waits longer.
        client = reach(wanted, Patience(say=say), tries=1 if suite else None)
    except UnreachableError as problem:
        if not suite:
            raise ArgosyError(
                f"{problem}",
                "without a registry Argosy can only make Debian images: write a tag such as "
                "debian:bookworm, debian:12 or debian:stable, also with -slim",
            ) from None
        if not shutil.which("apt-get"):
            raise ArgosyError(
                f"no registry answers ({problem}), and this host lacks apt to make Debian from "
                "its archive",
                "name a registry that this host can reach",
            ) from None
        say(f"no registry answers ({problem}): making Debian {suite} from the Debian archive")
        codename = _bootstrap(store, suite, root, say)
        config = ImageConfig(environment={"PATH": DEFAULT_PATH}, cmd=("bash",))
        made = _name_release(reference, codename)
        if made != reference:
            say(f"{reference} is {made}")
        return Fetched(CachedBase(reference=made, source="archive", config=config))
    return _pull(store, client, root, say)


def archive_suite(reference: Reference) -> str | None:
    """Return the Debian suite for a Docker Hub reference such as debian:12, or None."""
    found = _TAG.fullmatch(reference.tag or "")
    debian = (reference.host, reference.repository) == (DOCKER_HUB, "library/debian")
    if not (debian and found) or reference.digest:
        return None
    return SUITES.get(found[1], None if found[1].isdigit() else found[1])


def _name_release(reference: str, codename: str) -> str:
    """Return the reference with its tag replaced by the release, such as debian:bookworm."""
    name = "debian-slim" if reference.endswith("-slim") else "debian"
    folder, slash, _ = reference.rpartition("/")
    return folder + slash + name.replace("debian", f"debian:{codename}")


def _pull(store: Store, client: Client, root: Path, say: Say) -> Fetched:
    pulled = pull(store, client, root.with_name(f"{root.name}.pulled"), say)
    archive = Folder(pulled.folder, str(pulled.reference))
    text = unhindered(lambda: _unpack(root, archive, describe(archive)))
    config = ImageConfig.model_validate_json(text)
    base = CachedBase(reference=str(pulled.reference), source="registry", config=config)
    return Fetched(base, pulled.cached)


def _take_file(store: Store, source: str, root: Path, say: Say) -> Fetched:
    """Unpack an archive or SIF file."""
    file, wanted = split_source(unquote(source))
    aside = root.with_name(f"{root.name}.archive")
    text = use_file(store, file, aside, say, partial(_unpack, root), wanted=wanted)
    config = ImageConfig.model_validate_json(text)
    return Fetched(CachedBase(reference=file.name, source="file", config=config))


def _unpack(root: Path, archive: Archive, image: IncomingImage) -> str:
    """Unpack and flatten all layers; return the image's configuration in JSON."""
    config = config_of(archive, image)
    layers: list[Layer] = []
    for number, layer in enumerate(image.layers):
        diff = root.with_name(f"{root.name}.layer-{number}")
        layers.append(Layer(diff, unpack_layer(archive, layer, diff, layers)))
    flatten(layers, root)
    return config.model_dump_json()


def _bootstrap(store: Store, suite: str, root: Path, say: Say) -> str:
    """Unpack the minimal system of a suite; return the release's codename, which differs for `stable`."""
    program = tools.Tools(store).require("mmdebstrap", say)
    command = [*_as_ordinary_user(), str(program), "--mode=chrootless", "--variant=extract"]
    command += ["--include=?essential", "--include=?priority(required)"]
    command += ["--include=apt,ca-certificates,usr-is-merged"]
    command += [f"--setup-hook={MERGED_USR}"]
    command += ["--skip=cleanup/apt,download/empty,extract/unlink", suite, str(root)]
    # With a strict umask, only root could enter the image's folders.
    done = subprocess.run(
        command, env=tools.Tools(store).environment(), capture_output=True, text=True, umask=0o022
    )
    if done.returncode != 0:
        remove_tree(root)
        raise ArgosyError(_why_not(suite, done.stderr))
    if os.geteuid() == 0 and count_ids() > 1:
        _make_own(root)
    # dpkg's maintainer scripts look up users before base-passwd is configured.
    for name in ("passwd", "group"):
        shutil.copyfile(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    return _fix_suite(suite, root)


def _as_ordinary_user() -> list[str]:
    """Return a command prefix to leave a root-only namespace, where files of other users are impossible."""
    is_made_up = os.geteuid() == 0 and count_ids() == 1
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if is_made_up else []


def _why_not(suite: str, said: str) -> str:
    """Return the error message for mmdebstrap's output; a full disk has its own."""
    if full := _FULL.search(plain(said)):
        return (
            f"a disk is full while Debian {suite} is made from the Debian archive ({full[0].strip()}): "
            f"free space, for example with `argosy image prune`, or in {gettempdir()}"
        )
    reason = tools.first_error(said) or "mmdebstrap failed"
    return f"Debian {suite} cannot be made from the Debian archive: {reason.rstrip('.')}"


def _fix_suite(suite: str, root: Path) -> str:
    """Replace a moving suite such as `stable` by today's codename in sources.list; return the codename."""
    lists = root / "var/lib/apt/lists"
    release = next(iter(sorted(lists.glob(f"*_dists_{suite}_*Release"))), None)
    found = _CODENAME.search(release.read_text(encoding="utf-8")) if release else None
    codename = found[1] if found else suite
    sources = root / "etc/apt/sources.list"
    if codename != suite and sources.is_file():
        text = re.sub(rf" {suite}(?=[ -])", f" {codename}", sources.read_text(encoding="utf-8"))
        sources.write_text(text, encoding="utf-8")
    return codename


def _make_own(root: Path) -> None:
    """Change the owner of all files to root: a build has one user, and could not copy others' files."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            status = path.lstat()
            if (status.st_uid, status.st_gid) == (0, 0):
                continue
            os.lchown(path, 0, 0)
            if not path.is_symlink():
                # chown clears setuid and setgid bits.
                path.chmod(stat.S_IMODE(status.st_mode))
