"""Making and entering the namespaces that the cluster lives in."""

import os
from pathlib import Path

from cluster import linux

_ENTERED = ("user", "mnt", "uts", "ipc", "net")


def enter(pid: int, *, processes: bool) -> None:
    """Join the namespaces of process `pid`, and with `processes` let the next child join its process ids.

    The working directory stays the same path.
    """
    folder = Path.cwd()
    names = (*_ENTERED, "pid") if processes else _ENTERED
    # All are opened before the first is joined: afterwards /proc may show other processes.
    opened = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
    for descriptor in opened:
        linux.set_namespace(descriptor)
    os.chdir(folder)


def own_user_namespace() -> None:
    """Become privileged in a user namespace in which everybody has the ids that they have outside.

    An ordinary user may map the own id alone. Root maps all, since Slurm's daemons change
    their groups when they run as root, and that needs a full map.
    """
    if os.geteuid() == 0:
        _map_from_outside()
        return
    user, group = os.geteuid(), os.getegid()
    linux.unshare(linux.NEW_USER)
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1\n")
    (own / "gid_map").write_text(f"{group} {group} 1\n")


def _map_from_outside() -> None:
    """A child that stays outside writes the maps: only there is it privileged over other ids."""
    reader, writer = os.pipe()
    maps = {name: _identity(name) for name in ("uid_map", "gid_map")}
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        for name, text in maps.items():
            Path(f"/proc/{parent}/{name}").write_text(text)
        os._exit(0)
    linux.unshare(linux.NEW_USER)
    os.write(writer, b"!")
    _, status = os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    if status:
        raise OSError("the ids of the user namespace could not be mapped")


def _identity(name: str) -> str:
    """A map from each id that exists here to itself.

    Id 0 has a line of its own. A map of one line for all ids looks like the machine's own, and runc
    would take itself for the real root and ask for what that may do.
    """
    lines = [line.split() for line in Path("/proc/self", name).read_text().splitlines()]
    spans = [(int(inside), int(count)) for inside, _, count in lines]
    if spans[0] != (0, 1):
        spans[:1] = [(0, 1), (1, spans[0][1] - 1)]
    return "".join(f"{first} {first} {count}\n" for first, count in spans)
