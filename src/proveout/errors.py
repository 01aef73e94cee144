"""The exception tree. Every error a user can cause is one of these, and the CLI catches them once.

    ProveoutError                 exit code 1 unless said otherwise
    ├── UsageError (ValueError)   exit 2   what was typed cannot be right: unknown device, option, script …
    ├── EnvironmentFault          exit 3   this machine cannot do it: unwritable store, missing package …
    ├── ScriptError               the user's script raised, or holds no model
    ├── CaptureError              PyTorch could not turn the model into graphs
    ├── CompileError              our own stages failed, or `fallback="error"` met an op without a kernel
    ├── DeviceError               the device refused or could not hold a Program
    │   └── OutOfMemory
    ├── NumericsError             the outputs are wrong
    ├── Timeout                   a child process ran past its limit
    └── Crash                     a child process died

Each message says what was found, what was expected and what to do next.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable


class ProveoutError(Exception):
    """Base of all errors that Proveout raises on purpose."""

    exit_code = 1
    failure = "internal"
    """The class of failure that a Record stores."""


class UsageError(ProveoutError, ValueError):
    exit_code = 2
    failure = "usage"


class EnvironmentFault(ProveoutError):
    exit_code = 3
    failure = "environment"


class ScriptError(ProveoutError):
    failure = "script"


class CaptureError(ProveoutError):
    failure = "capture"


class CompileError(ProveoutError):
    failure = "lowering"


class DeviceError(ProveoutError):
    failure = "device"


class OutOfMemory(DeviceError):
    failure = "memory"


class NumericsError(ProveoutError):
    failure = "numerics"


class Timeout(ProveoutError):
    failure = "timeout"


class Crash(ProveoutError):
    failure = "crash"


def unknown(what: str, name: object, valid: Iterable[str]) -> UsageError:
    """The error for a name that is not in a list: names the valid ones and the nearest."""
    names = sorted(valid)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UsageError(f"unknown {what} {str(name)!r}; valid: {', '.join(names)}.{hint}")


_OF_A_DISK = {
    errno.ENOSPC: "Free some space and run it again.",
    errno.EDQUOT: "Free some space and run it again.",
    errno.EROFS: "Choose a folder that can be written.",
    errno.EACCES: "Choose a folder that can be written.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EIO: "The disk may be damaged: choose another.",
}
"""What the system says about its disks, and what to do then."""


def of_a_disk(error: BaseException) -> str:
    """What the system says about a disk in two sentences; empty for all other errors."""
    if not isinstance(error, OSError) or error.errno not in _OF_A_DISK:
        return ""
    where = f" ({error.filename})" if error.filename else ""
    return f"{os.strerror(error.errno)}{where}. {_OF_A_DISK[error.errno]}"
