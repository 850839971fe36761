"""Take the ids of the job's user in a container that shows root's: PMIx accepts no other user."""

from __future__ import annotations

import ctypes
import os

from .settings import SettingsError

_NEW_USER_NAMESPACE = 0x10000000  # CLONE_NEWUSER of linux/sched.h


def take_ids(uid: int, gid: int) -> None:
    """Give these ids to this process, which has a single thread, and to its children.

    The kernel requires CAP_SETFCAP of a root that maps itself (user_namespaces(7)).

    Raises:
        SettingsError: when the kernel refuses a user namespace within the container's.
    """
    if (os.geteuid(), os.getegid()) == (uid, gid):
        return
    maps = {"uid_map": f"{uid} {os.geteuid()} 1", "gid_map": f"{gid} {os.getegid()} 1"}
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_NEW_USER_NAMESPACE):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        for name, text in {"setgroups": "deny", **maps}.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise SettingsError(
            f"PMIx needs a second user namespace, which this kernel refuses ({error.strerror}): "
            "set `engine: proot` in `images` of site.yaml, or `runtime: native` in config.yaml"
        ) from error
