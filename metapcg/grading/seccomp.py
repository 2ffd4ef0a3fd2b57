"""System calls that submitted code may not make: a filter for bubblewrap's ``--seccomp``.

Refused are calls that hold memory outside of what limits count (shared memory of System V, files in memory), that make
namespaces and mounts, that look into other processes, and parts of the kernel that no notebook needs and that have
often been broken out of. Everything else is allowed. A refused call fails with EPERM, ``clone3`` with ENOSYS, so that
the C library falls back to ``clone``, whose flags can be looked at.
"""

from __future__ import annotations

import errno
import platform
import struct

# Numbers of the two machines that the course's wheels exist for (arch/x86/entry/syscalls, asm-generic/unistd.h).
_MACHINES = {
    "x86_64": (0xC000003E, 0),
    "aarch64": (0xC00000B7, 1),
}
_REFUSED = {
    "shmget": (29, 194),
    "msgget": (68, 186),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "personality": (135, 92),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "swapon": (167, 224),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "vmsplice": (278, 75),
}
_CLONE, _CLONE3 = (56, 220), 435
_NEW_NAMESPACES = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000

# Instructions of classic BPF (linux/bpf_common.h) and answers of seccomp (linux/seccomp.h).
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000  # x86's other calling convention, with numbers of its own


def program(machine: str | None = None) -> bytes:
    """The filter for this machine (or ``x86_64``, ``aarch64``), as ``--seccomp`` reads it; empty on other machines."""
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        return b""
    architecture, column = _MACHINES[machine]
    refused = sorted(numbers[column] for numbers in _REFUSED.values())
    # Each jump skips the instruction behind it: no distances to count.
    steps = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    steps += [(_ABOVE, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for number in refused:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    steps += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    steps += [(_EQUAL, 1, 0, _CLONE[column]), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)
