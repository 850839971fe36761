"""Check that no other user can replace folders whose files run as this user, like sshd's StrictModes."""

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from argosy_common.errors import ArgosyError

TRUSTED_VARIABLE = "ARGOSY_TRUSTED"
"""Environment variable with users and groups, separated by commas, who may replace this user's folders."""

MOST_LINKS = 40
"""Symbolic links followed on one path, as in the kernel."""

_ACCESS_LIST = "system.posix_acl_access"
"""Extended attribute with entries (tag, rights, id); tags ACL_USER, ACL_GROUP_OBJ, ACL_GROUP of acl(5)."""
_USER, _OWN_GROUP, _GROUP, _WRITE = 2, 4, 8, 2

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_strictly(place: Path, remedy: str) -> int:
    """Open a folder that only its owner, root and this user can replace.

    Each folder on the path is opened relative to its parent, so the checked folder is the opened one.
    Folders with the sticky bit, such as /tmp, may be writable to others, who cannot rename entries there.

    Args:
        place: a path without symbolic links.

    Raises:
        ArgosyError: with the folder that others could change.
        OSError: if the folder does not exist.
    """
    path = Path("/")
    folder = os.open("/", _WALK)
    for part in ("", *place.parts[1:]):
        if part:
            path /= part
            try:
                inner = os.open(part, _WALK, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        found = os.fstat(folder)
        sticky = found.st_mode & stat.S_ISVTX
        problem = _owner_problem(found) or (
            "" if sticky else others_may_write(found, f"/proc/self/fd/{folder}")
        )
        if problem:
            os.close(folder)
            raise ArgosyError(f"{path}: {problem}", remedy)
    return folder


def check_place(place: Path, remedy: str) -> None:
    """Raise an error if users besides the owner, root and this user can replace a folder or its parents.

    For a place that another user owns, parents with the sticky bit are rejected as well: anybody could
    have created the place there.

    Args:
        place: an absolute path, existing or not; links on the path are checked and followed.
    """
    way, is_there = _way_to(place)
    owner = way[-1][1].st_uid if is_there else os.geteuid()
    for number, (path, found) in enumerate(way, start=1):
        is_place = is_there and number == len(way)
        is_kept = stat.S_ISLNK(found.st_mode) or (
            owner == os.geteuid() and not is_place and found.st_mode & stat.S_ISVTX
        )
        problem = "" if found.st_uid == owner else _owner_problem(found)
        problem = problem or ("" if is_kept else others_may_write(found, path))
        if problem:
            raise ArgosyError(f"{path}: {problem}", remedy)


def _way_to(place: Path) -> tuple[list[tuple[Path, os.stat_result]], bool]:
    """Return the existing folders and links on the path to a place, and whether the place exists."""
    at, names, links = Path("/"), [*reversed(place.parts[1:])], 0
    way = [(at, at.lstat())]
    while names:
        name = names.pop()
        if name == "..":
            at = at.parent
            continue
        try:
            found = (at / name).lstat()
        except OSError:
            # Missing or unusable: reported when the place is used.
            return way, False
        way.append((at / name, found))
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MOST_LINKS:
                raise ArgosyError(f"{place}: these links are broken")
            target = (at / name).readlink()
            at = Path("/") if target.is_absolute() else at
            names += [part for part in reversed(target.parts) if part != "/"]
        else:
            at /= name
    return way, True


def others_may_write(found: os.stat_result, place: str | Path) -> str:
    """Describe users besides the owner and ARGOSY_TRUSTED who may write to a folder; empty: nobody."""
    said = f"may remove folders of other users (mode {stat.S_IMODE(found.st_mode):o})"
    if found.st_mode & stat.S_IWOTH:
        return f"anybody {said}"
    # With an access control list, this bit is the list's mask.
    if found.st_mode & stat.S_IWGRP:
        for kind, name in _writers(found, place):
            if not _is_trusted(name):
                return f"{kind} {name} {said}"
    return ""


def _writers(found: os.stat_result, place: str | Path) -> Iterator[tuple[str, str]]:
    """Yield kind and name of others who may write to a folder, by its group or access control list."""
    try:
        entries = os.getxattr(place, _ACCESS_LIST)[4:]
    except OSError:
        entries = struct.pack("<HHI", _OWN_GROUP, _WRITE, 0)
    for tag, rights, number in struct.iter_unpack("<HHI", entries):
        if not rights & _WRITE:
            continue
        if tag == _USER and number not in (0, os.geteuid(), found.st_uid):
            yield "the user", _user_name(number)
        elif tag == _OWN_GROUP and not _is_private_group(found.st_gid):
            yield "its group", _group_name(found.st_gid)
        elif tag == _GROUP and not _is_private_group(number):
            yield "the group", _group_name(number)


def open_private(folder: int, name: str, path: Path, remedy: str) -> int:
    """Open the user's private folder `name` in `folder`; create it if missing.

    Raises:
        ArgosyError: if it belongs to another user, is not a folder, or is open to others.
        OSError: if it cannot be created.
    """
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    try:
        own = os.open(name, _OPEN, dir_fd=folder)
    except NotADirectoryError:
        raise ArgosyError(f"{path}: is not a folder made by Argosy", remedy) from None
    except PermissionError:
        own = os.open(name, _WALK, dir_fd=folder)
    found = os.fstat(own)
    if found.st_uid != os.geteuid():
        problem = f"belongs to another user (id {found.st_uid}); {remedy}"
    elif found.st_mode & 0o077:
        problem = (
            f"others may use this folder (mode {stat.S_IMODE(found.st_mode):o}); remove it from "
            f"{os.uname().nodename}"
        )
    else:
        return own
    os.close(own)
    raise ArgosyError(f"{path}: {problem}")


def _owner_problem(found: os.stat_result) -> str:
    if found.st_uid in (0, os.geteuid()) or found.st_uid == _unmapped_owner():
        return ""
    name = _user_name(found.st_uid)
    return "" if _is_trusted(name) else f"it belongs to another user, {name}"


def _is_trusted(name: str) -> bool:
    return name in os.environ.get(TRUSTED_VARIABLE, "").split(",")


# Imported late: names are rarely needed, and the lookup may use a network directory.
def _group_name(group: int) -> str:
    import grp

    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _user_name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _unmapped_owner() -> int | None:
    """Return the id that root's files have in a user namespace; None outside of one."""
    if Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]:
        return None
    return int(Path("/proc/sys/fs/overflowuid").read_text(encoding="ascii"))


def _is_private_group(group: int) -> bool:
    """Return whether the group is the user's private group, without other members."""
    import grp
    import pwd

    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(members.gr_mem) <= {user.pw_name}
    return group == user.pw_gid and members.gr_name == user.pw_name and alone
