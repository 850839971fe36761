"""System call numbers for the filter under proot.

Source: the kernel's system call tables, linux/audit.h, and src/syscall of proot 5.1.0. The aarch64 numbers
are untested. Standard library only.
"""

from dataclasses import dataclass
from typing import ClassVar

ABSENT = -1
"""Number of calls that an architecture lacks."""


@dataclass(frozen=True)
class Calls:
    """The numbers of an architecture's system calls.

    Args:
        audit: the architecture's AUDIT_ARCH constant of linux/audit.h.
        known: the highest number that proot 5.1 knows.
        younger: sched_getattr, getrandom, memfd_create; membarrier, mlock2, copy_file_range, preadv2,
            pwritev2, pkey_mprotect, pkey_alloc, pkey_free; io_pgetevents, rseq.
        missing: refused calls: those that proot does not translate (quotactl, nfsservctl,
            lookup_dcookie, fanotify, file handles), those that reach objects of all the user's programs
            (memory, semaphores and queues of System V, mq_open, mq_unlink, add_key, request_key, keyctl,
            kcmp, perf_event_open), unshare and setns.
        giving: chown, fchown, lchown, fchownat.
        becoming: setuid, setgid, setreuid, setregid, setgroups, setresuid, setresgid, setfsuid, setfsgid.
        attributes: setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr, in this order.
        nodes: mknod and mknodat, with the index of the argument that has the file type.
        by_process: sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr, prlimit64.
        signals: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo.
    """

    audit: int
    known: int
    younger: tuple[int, ...]
    missing: tuple[int, ...]
    giving: tuple[int, ...]
    becoming: tuple[int, ...]
    attributes: tuple[int, ...]
    nodes: dict[int, int]
    by_process: tuple[int, ...]
    signals: tuple[int, ...]
    seccomp: int
    ioctl: int
    fcntl: int
    kill: int
    setpriority: int
    ioprio_set: int
    fchmod: int
    fchmodat: int
    utimensat: int
    truncate: int
    chmod: int = ABSENT
    utime: int = ABSENT
    utimes: int = ABSENT
    futimesat: int = ABSENT

    @property
    def changing(self) -> tuple[int, ...]:
        """Return the calls that change modes and times."""
        by_path = (self.chmod, self.fchmodat, self.utime, self.utimes, self.futimesat)
        return tuple(call for call in (self.fchmod, self.utimensat, *by_path) if call != ABSENT)

    common: ClassVar = (435, 436, 441, 449, 450, 451, 453, 454, 455, 456, 462)
    """Allowed newer calls of all architectures: clone3, close_range, epoll_pwait2, futex_waitv,
    set_mempolicy_home_node, cachestat, map_shadow_stack, futex_wake, futex_wait, futex_requeue, mseal.
    clone3 is required: after clone(2) with shared memory (vfork), proot 5.1 assumes that parent and child
    share the heap for good, and the parent crashes."""


CALLS = {
    "x86_64": Calls(
        audit=0xC000003E,
        known=312,
        younger=(315, 318, 319, *range(324, 332), 333, 334),
        missing=(
            *(*range(29, 32), *range(64, 72), 220, 240, 241, *range(248, 251), 272, 298, 308, 312),
            *(179, 180, 212, 300, 301, 303, 304),
        ),
        giving=(92, 93, 94, 260),
        becoming=(105, 106, 113, 114, 116, 117, 119, 122, 123),
        attributes=(188, 189, 190, 197, 198, 199),
        nodes={133: 1, 259: 2},
        by_process=(142, 144, 203, 314, 302),
        signals=(62, 200, 234, 129, 297),
        seccomp=317,
        ioctl=16,
        fcntl=72,
        kill=62,
        setpriority=141,
        ioprio_set=251,
        fchmod=91,
        fchmodat=268,
        utimensat=280,
        truncate=76,
        chmod=90,
        utime=132,
        utimes=235,
        futimesat=261,
    ),
    "aarch64": Calls(
        audit=0xC00000B7,
        known=272,
        younger=(275, 278, 279, *range(283, 291), 292, 293),
        missing=(
            *(*range(186, 198), 180, 181, *range(217, 220), 97, 241, 268, 272),
            *(60, 42, 18, 262, 263, 264, 265),
        ),
        giving=(54, 55),
        becoming=(143, 144, 145, 146, 147, 149, 151, 152, 159),
        attributes=(5, 6, 7, 14, 15, 16),
        nodes={33: 2},
        by_process=(118, 119, 122, 274, 261),
        signals=(129, 130, 131, 138, 240),
        seccomp=277,
        ioctl=29,
        fcntl=25,
        kill=129,
        setpriority=140,
        ioprio_set=30,
        fchmod=52,
        fchmodat=53,
        utimensat=88,
        truncate=45,
    ),
}
