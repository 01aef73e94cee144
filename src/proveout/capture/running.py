"""Runs a script in this process as `python script.py` would, and says in a sentence how it failed."""

from __future__ import annotations

import builtins
import concurrent.futures.process
import concurrent.futures.thread
import hashlib
import itertools
import os
import re
import shlex
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType

from proveout import vision
from proveout.capture.network import needs_network, quick_answers
from proveout.coding import digest
from proveout.compat.mlagility.served import mlagility_names
from proveout.errors import UsageError

_OURS = os.path.dirname(__file__) + os.sep
SAYS_MORE = "Its log says more."
"""Where the sentence on a script that ended itself points; its last words are put here once they can be read."""
OFFLINE = "Run it where the network can be reached; --weights random does without a hub's weights."
ARGUMENTS = " Pass a script its arguments with --script-args '…'."
USAGE = 2
"""What argparse exits with."""
_numbers = itertools.count(1)


def run_script(script: Path, script_args: str = "") -> tuple[ModuleType, BaseException | None]:
    """Run a script as `__main__`; its module, and what it raised (`SystemExit` too; Ctrl-C passes through).

    `sys.argv`, `sys.path`, the working folder and `__main__` are afterwards as they were, and its threads have ended.
    The script's module is then renamed and stays importable: torch.compile looks a function's globals up by their
    `__name__`.
    """
    argv = [str(script), *split_arguments(script_args)]
    module = ModuleType("__main__")
    source = script.read_bytes()
    package, root = _package(script, source)
    vars(module).update(__file__=str(script), __builtins__=builtins, __cached__=None, __package__=package)
    raised: BaseException | None = None
    before = set(threading.enumerate())
    vision.serve()
    with _as_main(module, argv, root), mlagility_names(script), quick_answers():
        try:
            code = compile(source, str(script), "exec", dont_inherit=True)
            exec(code, vars(module))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raised = error
        try:
            for thread in set(threading.enumerate()) - before:
                while thread.is_alive() and not thread.daemon and not _waits_for_work(thread):  # Python waits, too
                    thread.join(0.05)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # its time is up
            raised = error
    module.__name__ = f"proveout_script_{next(_numbers)}"
    sys.modules[module.__name__] = module
    return module, raised


def _waits_for_work(thread: threading.Thread) -> bool:
    """Whether it belongs to a pool that has nothing to do, and so lives until the pool is shut, or Python ends.

    torch.compile leaves such a pool behind.
    """
    if isinstance(thread, concurrent.futures.process._ExecutorManagerThread):
        return not thread.pending_work_items
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None or frame.f_code is not concurrent.futures.thread._worker.__code__:
        return False  # a call that the pool was given is above
    return frame.f_locals.get("work_item") is None and frame.f_locals["work_queue"].empty()


def source_files(script: Path) -> list[tuple[str, str]]:
    """(path seen from the script's folder, digest) of the script and of the modules beside it that are imported."""
    files = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    folder = str(script.parent)
    beside = {file for file in files if file.startswith(folder) and file.endswith(".py")}
    return [
        (_relative(script, file), file_digest(Path(file)))
        for file in sorted(beside | {str(script)})
        if is_users(script, file) and os.path.isfile(file)
    ]


def source_digest(script: Path) -> str:
    return digest(source_files(script))[:20]


def file_digest(path: Path) -> str:
    """A hash of a file's bytes, less a first line of labels: they say nothing about the model."""
    data = path.read_bytes()
    return hashlib.sha256(data.partition(b"\n")[2] if data.startswith(b"# labels:") else data).hexdigest()[:20]


def split_arguments(script_args: str) -> list[str]:
    """Script arguments as a shell would split them."""
    try:
        return shlex.split(script_args)
    except ValueError as error:
        raise UsageError(f"--script-args {script_args!r} cannot be split: {error}. Close the quotation.") from None


def explain(script: Path, raised: BaseException | None, ran: bool) -> str:
    """One sentence on how a script failed, empty where it did not. `ran`: a model was called to the end."""
    when = "after its model ran" if ran else "before any model had run"
    if raised is None or isinstance(raised, SystemExit):
        if ran:
            return ""
        if raised and raised.code:
            step = ARGUMENTS if raised.code == USAGE else ""
            return f"{script.name} exited with {raised.code!r} {when}. {SAYS_MORE}{step}"
        return f"{script.name} ran no model. A script must build a torch.nn.Module and call it: model(inputs)."
    if isinstance(raised, UsageError) and str(script).startswith(_OURS):  # no line of the user's is to blame
        return str(raised)
    kind, message = type(raised).__name__, " ".join(str(raised).split())
    if isinstance(raised, SyntaxError):
        line = _relative(script, raised.filename or script.name) + (f":{raised.lineno}" if raised.lineno else "")
        message = ": ".join(filter(None, (raised.msg, (raised.text or "").strip())))
        if line.partition(":")[0] == script.name:
            return f"{line} is not valid Python: {message}"
    else:
        frames = [f"{frame.f_code.co_filename}:{number}" for frame, number in traceback.walk_tb(raised.__traceback__)]
        owned = [_relative(script, frame) for frame in frames if is_users(script, frame)]
        line = owned[-1] if owned else script.name
    message = _cut(message) or "no message"
    if needs_network(raised):
        return f"{script.name} needs the network at {line}: {message.rstrip('.')}. {OFFLINE}"
    if failure_of(raised) == "memory":
        return f"{script.name} ran out of memory at {line} {when}: {message}"
    return f"{script.name} raised {kind} at {line} {when}: {message}"


def failure_of(raised: BaseException | None) -> str:
    """The class of failure of what a script raised."""
    refused = "can't allocate memory" in str(raised) or type(raised).__name__ == "OutOfMemoryError"
    return "memory" if refused or isinstance(raised, MemoryError) else "script"


def print_traceback(raised: BaseException) -> None:
    """Print a script's traceback as if nothing of ours stood around it."""
    report = traceback.TracebackException.from_exception(raised)
    part: traceback.TracebackException | None = report
    while part:
        part.stack[:] = [frame for frame in part.stack if not frame.filename.startswith(_OURS)]
        part = part.__cause__ or part.__context__
    print(*report.format(), sep="", end="", file=sys.stderr)


def is_users(script: Path, filename: str) -> bool:
    """Whether a file is the user's: below the script's folder, and no library installed there."""
    folder = f"{script.parent}{os.sep}"
    if not filename.startswith(folder):
        return False
    return not {"site-packages", "dist-packages"} & set(filename[len(folder) :].split(os.sep))


def location(script: Path, frame: FrameType | None) -> str:
    """The user's own line at or above a frame, innermost, as `file:line` seen from the script's folder."""
    while frame and not is_users(script, frame.f_code.co_filename):
        frame = frame.f_back
    return place(script, frame.f_code.co_filename, frame.f_lineno) if frame else script.name


def place(script: Path, filename: str, line: int) -> str:
    return f"{_relative(script, filename)}:{line}"


def _relative(script: Path, filename: str) -> str:
    return filename.removeprefix(f"{script.parent}{os.sep}")


def _cut(message: str, limit: int = 300) -> str:
    return message if len(message) <= limit else f"{message[: limit - 1]}…"


_RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.", re.MULTILINE)


def _package(script: Path, source: bytes) -> tuple[str | None, str]:
    """The package that a script with relative imports belongs to and the folder it is found in, as for `python -m`."""
    if not _RELATIVE.search(source):
        return None, ""
    folder = script.parent
    names = [folder.name]
    while (folder / "__init__.py").is_file() and (folder.parent / "__init__.py").is_file():
        folder = folder.parent
        names.insert(0, folder.name)
    return ".".join(names), str(folder.parent)


@contextmanager
def _as_main(module: ModuleType, argv: list[str], root: str) -> Iterator[None]:
    main, folder, old_argv, old_path = sys.modules["__main__"], os.getcwd(), sys.argv, sys.path
    sys.modules["__main__"] = module
    sys.argv, sys.path = argv, [os.path.dirname(argv[0]), *([root] if root else []), *old_path]
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        sys.argv, sys.path = old_argv, old_path
        os.chdir(folder)
