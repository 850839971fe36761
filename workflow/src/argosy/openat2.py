"""openat2(2): one call of the kernel opens a path below a folder, none of whose parts is a link.

Linux has it since 5.6; the containers of some sites forbid it.
"""

import ctypes
import os

_NUMBER = 437  # on all of Linux's architectures but Alpha
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08


class _How(ctypes.Structure):
    """struct open_how of linux/openat2.h."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALL = _LIBC.syscall
_SYSCALL.argtypes = (
    *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p),
    *(ctypes.POINTER(_How), ctypes.c_size_t),
)
_SYSCALL.restype = ctypes.c_long


def open_below(folder: int, path: str, flags: int) -> int:
    """Open `path`, relative to the folder of that descriptor, for reading; a descriptor.

    Raises:
        OSError: when there is a link on the way or a part is missing, as open(2) does, and ENOSYS or EPERM
            where there is no such call.
    """
    how = _How(flags, 0, _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH)
    descriptor: int = _SYSCALL(_NUMBER, folder, os.fsencode(path), how, ctypes.sizeof(how))
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return descriptor
