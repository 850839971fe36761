"""The shared libraries of the host's shell."""

from argosy_images.engines.trusted_root import _LIBRARY

GLIBC = """\tlinux-vdso.so.1 (0x00007febe5004000)
\tlibtinfo.so.6 => /lib64/libtinfo.so.6 (0x00007febe4dee000)
\tlibc.so.6 => /lib64/libc.so.6 (0x00007febe4c00000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007febe5006000)
"""
MUSL = """\t/lib/ld-musl-x86_64.so.1 (0x7f5a1c0e6000)
\tlibc.musl-x86_64.so.1 => /lib/ld-musl-x86_64.so.1 (0x7f5a1c0e6000)
"""
STATIC = "\tnot a dynamic executable\n"


def test_libraries_are_read_as_each_c_library_lists_them() -> None:
    assert _LIBRARY.findall(GLIBC) == [
        "/lib64/libtinfo.so.6",
        "/lib64/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
    ]
    assert set(_LIBRARY.findall(MUSL)) == {"/lib/ld-musl-x86_64.so.1"}
    assert _LIBRARY.findall(STATIC) == []
