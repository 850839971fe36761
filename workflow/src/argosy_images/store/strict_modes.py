"""Folders whose content runs as this user: nobody else may change them, as sshd's StrictModes has it."""

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from argosy_common.errors import ArgosyError

TRUSTED_VARIABLE = "ARGOSY_TRUSTED"
"""Names of users and groups, with commas between them, who may replace this user's folders."""

MOST_LINKS = 40
"""Symbolic links on one path, as in the kernel."""

_ACCESS_LIST = "system.posix_acl_access"
"""Entries of a tag, rights and a number; in the words of acl(5) ACL_USER, ACL_GROUP_OBJ and ACL_GROUP."""
_USER, _OWN_GROUP, _GROUP, _WRITE = 2, 4, 8, 2

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_strictly(place: Path, remedy: str) -> int:
    """Return a descriptor of a folder that only its owner, root and this user can replace.

    Every folder on the way is opened in the one before it, so what was looked at is what is used. Others
    may write to one that has the sticky bit, as /tmp does: there they cannot rename what is not theirs.

    Args:
        place: without symbolic links.

    Raises:
        ArgosyError: naming the folder that others could change.
        OSError: when there is none.
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
    """Refuse a place unless only this user, root and its owner can replace it, or a folder on the way.

    A place that another user owns is his to fill; there, a folder with the sticky bit is refused as well,
    since anybody could have made the place in it.

    Args:
        place: an absolute path, there or not; links on the way are looked at and followed.

    Raises:
        ArgosyError: naming the folder or link that others could change.
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
    """Return the folders and links on the way to a place, as far as it is there, and whether it is."""
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
            # Missing or unusable: whoever needs it reports that.
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
    """Return who but the owner, and whom ARGOSY_TRUSTED names, may write there, in words; empty: nobody."""
    said = f"may remove the folders of others (mode {stat.S_IMODE(found.st_mode):o})"
    if found.st_mode & stat.S_IWOTH:
        return f"there anybody {said}"
    # Where a list grants rights, this bit is its mask.
    if found.st_mode & stat.S_IWGRP:
        for kind, name in _writers(found, place):
            if not _is_trusted(name):
                return f"there {kind} {name} {said}"
    return ""


def _writers(found: os.stat_result, place: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of others who may write to a folder, by its group or its access list."""
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
    """Return a descriptor of the user's private folder `name` in `folder`, made if missing.

    Raises:
        ArgosyError: when it is not the user's, not a folder, or open to others.
        OSError: when it cannot be made.
    """
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    try:
        own = os.open(name, _OPEN, dir_fd=folder)
    except NotADirectoryError:
        raise ArgosyError(f"{path}: is not a folder, and not Argosy's", remedy) from None
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


# Names are asked for seldom, and it may take a network's directory.
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
    """Return the id that owns root's files in a user namespace without root; None outside of one."""
    if Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]:
        return None
    return int(Path("/proc/sys/fs/overflowuid").read_text(encoding="ascii"))


def _is_private_group(group: int) -> bool:
    """Return whether it is the group that some systems make for each user alone."""
    import grp
    import pwd

    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(members.gr_mem) <= {user.pw_name}
    return group == user.pw_gid and members.gr_name == user.pw_name and alone
