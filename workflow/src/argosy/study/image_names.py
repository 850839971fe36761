"""Values of the key `image`, and names for images that are imported rather than built.

An image is built from a folder of containers/, or imported from a registry, udocker or an archive. Its lock
is in `resources/images/<name>/` in both cases.
"""

import hashlib
import re

REGISTRY, UDOCKER = "docker://", "udocker:"
ARCHIVES = (
    *(".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz"),
    *(".tar.bz2", ".tbz", ".tbz2", ".tar.zst", ".tzst"),
    ".sif",
)
_ENDING = "|".join(map(re.escape, ARCHIVES))
_ARCHIVE = re.compile(rf"(?P<file>(?:.*/)?(?P<stem>[^/]*?)(?:{_ENDING}))(?P<inside>:.+)?")
"""An archive's path; after a colon, the name of one of several images in it."""
LONGEST = 64
_DIGEST = re.compile(r"@sha256:([0-9a-f]{12})[0-9a-f]*$")
_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_SHORT_DIGEST = 12


def is_taken(image: str) -> bool:
    """Return whether an image is imported rather than built from a folder of containers/."""
    return image.startswith((REGISTRY, UDOCKER)) or bool(archive_of(image))


def archive_of(image: str) -> str:
    """Return the path of an image's archive; "" for other images."""
    found = _ARCHIVE.fullmatch(image)
    return found["file"] if found and not image.startswith((REGISTRY, UDOCKER)) else ""


def image_name(image: str) -> str:
    """Return the name of an image's folder in resources/images/: `team-tool-1` for docker://team/tool:1."""
    if not is_taken(image):
        return image
    found = _ARCHIVE.fullmatch(image) if archive_of(image) else None
    text = found["stem"] + (found["inside"] or "") if found else _tagged(image)
    name = _OTHERS.sub("-", text).strip("-._")
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(image.encode()).hexdigest()[:_SHORT_DIGEST]
    return f"{name[: LONGEST - _SHORT_DIGEST - 1]}-{digest}"


def _tagged(image: str) -> str:
    """Return a reference with its tag or digest, without the default registry and namespace."""
    rest = image.removeprefix(REGISTRY).removeprefix(UDOCKER)
    rest = rest.removeprefix("docker.io/").removeprefix("library/")
    if _DIGEST.search(rest):
        return _DIGEST.sub(r"-\1", rest)
    return rest if not rest or ":" in rest.rpartition("/")[2] else f"{rest}:latest"
