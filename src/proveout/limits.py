"""Limits that a process takes upon itself, and upon all it starts, before it runs a script it does not trust."""

from __future__ import annotations

import _thread
import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from proveout.errors import EnvironmentFault
from proveout.types import Limits

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
POLL_S = 0.05


def impose(limits: Limits, *, scratch: str, stopping: Callable[[str], None], outputs: Sequence[str] = ()) -> None:
    """Take limits upon this process; there is no way back. Call it before the first thread exists.

    In a sandbox the working folder, `scratch` and the folders that `outputs` go to stay writable; temporary files go to
    `scratch`. A process that breaks the limit of processes ends with its whole session, after `stopping` was told why.
    """
    if limits.memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes, limits.memory_bytes))
    if not limits.network:
        _leave_network()
    if limits.sandbox:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        for folder in outputs:
            os.makedirs(folder, exist_ok=True)
        _forbid_writing_outside([os.getcwd(), scratch, *outputs, "/dev/shm", "/dev/null"])
    if limits.processes:
        _thread.start_new_thread(_watch_processes, (limits.processes, stopping))


def sandbox_reaches(cache: Path, folder: Path) -> bool:
    """Whether a sandboxed script that runs in a folder could write to the cache, where Records would not be safe."""
    cache, folder = cache.resolve(), folder.resolve()
    return cache.is_relative_to(folder) or folder.parent == cache


def machine_memory() -> int:
    """Bytes of memory in this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# ------------------------------------------------------------------------------------------ processes


def _watch_processes(most: int, stopping: Callable[[str], None]) -> None:
    """RLIMIT_NPROC does not bind root and counts all of a user's threads, so the session is counted instead.

    All of /proc is read only when the system has clearly more tasks than before: reading it is not free.
    """
    session, before = os.getsid(0), _num_tasks()
    while True:
        time.sleep(POLL_S)
        if _num_tasks() - before <= most // 2:
            continue
        if num_processes(session) > most:
            stopping(f"it ran more than {most} processes at a time")
            os.killpg(0, signal.SIGKILL)  # all at once, this process too: no fork can slip in between
        before = _num_tasks()


def _num_tasks() -> int:
    """Tasks of the whole system, from one line; 0 where it does not tell."""
    try:
        with open("/proc/loadavg") as line:
            return int(line.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def num_processes(session: int) -> int:
    return len(_members(session))


def _members(session: int) -> list[int]:
    """The processes of a session; none where the system has no /proc."""
    members = []
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session and fields[0] != b"Z":
            members.append(int(name))
    return members


# -------------------------------------------------------------------------------------------- network


def _leave_network() -> None:
    """A network namespace of our own, with nothing in it but the loopback."""
    try:
        _unshare(CLONE_NEWNET)
    except OSError as error:
        raise EnvironmentFault(
            f"--no-network needs a network namespace, which this system refuses ({error.strerror}). Leave it out,"
            " or allow user namespaces (sysctl user.max_user_namespaces)."
        ) from None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 1)  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def _unshare(what: int) -> None:
    """Leave a namespace of the system, in a user namespace of our own where we are not root."""
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(what) == 0:
        return
    if _libc.unshare(what | CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


# -------------------------------------------------------------------------------------------- writing


def _forbid_writing_outside(folders: Sequence[str]) -> None:
    """By Landlock where the kernel has it, by read-only mounts in a namespace of our own otherwise."""
    places = [folder for folder in folders if os.path.exists(folder)]
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    try:
        if version > 0:
            _landlock(places, version)
        else:
            _mount_read_only(places)
    except OSError as error:
        raise EnvironmentFault(
            f"--sandbox needs Landlock (Linux 5.13) or user and mount namespaces; here both are refused"
            f" ({error.strerror}). Leave it out, or run this in a container or virtual machine of its own."
        ) from None


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24


def _landlock(places: Sequence[str], version: int) -> None:
    # Removing and making of every kind are bits 4 to 12; renaming between folders came with version 2, truncation 3.
    rights = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
    rights |= (1 << 13 if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    # From version 6 on, signals and abstract sockets stay inside too; tracing does in every version.
    handled = struct.pack("=QQQ", rights, 0, 3 if version >= 6 else 0)[: 24 if version >= 6 else 8]
    ruleset = _called(_libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), ctypes.c_uint32(0)))
    for place in places:
        parent = os.open(place, os.O_PATH | os.O_CLOEXEC)
        allowed = rights if os.path.isdir(place) else rights & (_WRITE_FILE | _TRUNCATE)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, parent))
        _called(_libc.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0)))
        os.close(parent)
    _called(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _called(_libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    os.close(ruleset)


def _mount_read_only(places: Sequence[str]) -> None:
    """Every mount read-only but `places`, and no right left to change that."""
    recursive, private, bind = 0x4000, 0x40000, 0x1000
    _unshare(CLONE_NEWNS)
    _called(_libc.mount(None, b"/", None, ctypes.c_ulong(recursive | private), None))
    _read_only("/", on=True)
    for place in filter(os.path.isdir, places):
        path = os.fsencode(place)
        _called(_libc.mount(path, path, None, ctypes.c_ulong(bind), None))
        _read_only(place, on=False)
    os.chdir(os.getcwd())  # into the new mount of the same folder
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _called(_libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24)))
    _called(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _read_only(path: str, on: bool) -> None:
    """mount_setattr(2): the read-only flag of a mount, and of all below it where it is switched on."""
    attributes = struct.pack("=QQQQ", int(on), int(not on), 0, 0)
    flags = ctypes.c_uint32(0x8000 if on else 0)  # AT_RECURSIVE
    _called(_libc.syscall(442, -100, os.fsencode(path), flags, attributes, ctypes.c_size_t(len(attributes))))


def _called(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
