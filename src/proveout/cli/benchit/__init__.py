"""`benchit`: MLAgility's command line. Its words are spelled as ours here; the verbs that differ have a file each.

Everything that `proveout` takes, `benchit` takes too. Where none is named the device is this machine's CPU.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import zip_longest

from proveout.cli import verbs
from proveout.errors import UsageError

VERBS = ("benchmark", "cache", "models", "report", "version")
"""The verbs that mean something else than `proveout`'s."""
TIMEOUT_S = "3600"
"""MLAgility's own limit for one input."""
TIMEOUT_VARIABLE = "MLAGILITY_TIMEOUT_SECONDS"
CACHE_VARIABLE = "MLAGILITY_CACHE_DIR"

HELP = """Benchmark the models of scripts and ONNX files, as MLAgility's benchit does.

\b
benchit hello_world.py                     its models on this machine's CPU
benchit hello_world.py --runtimes ort torch-eager torch-compiled
benchit cache list                         the builds in the cache
benchit report -d selftest_results         a table of them as CSV

Results are kept in a cache folder (`-d`, or the variables MLAGILITY_CACHE_DIR and PROVEOUT_CACHE) and are not
made twice. Exit codes: 0 all passed, 1 some failed, 2 usage, 3 environment.
"""

FILES = (".py", ".onnx", ".txt")
SHORT = {"-d": "--cache-dir", "-r": "--report-dir"}
SEVERAL = ("--labels", "--runtimes", "--runtime", "--cache-dir", "--groq-compiler-flags", "--groq-assembler-flags")
"""Options that may be followed by several values; ours are repeated instead."""
DASHED = ("--groq-compiler-flags", "--groq-assembler-flags")
"""Those whose values are options themselves."""


def load(name: str) -> Callable[..., int]:
    """The function behind a verb of `benchit`'s own."""
    verb: Callable[..., int] = import_module(f"{__name__}.{name}").verb
    return verb


def spelled(words: Sequence[str]) -> list[str]:
    """MLAgility's command line as ours."""
    if not words:
        return ["--help"]
    if words[0] == "--version":
        return ["version", *words[1:]]
    words = list(words)
    folder = words[0] not in verbs.names() and os.path.isdir(words[0])
    if folder or is_file(words[0]) or (words[0].startswith("--") and any(map(is_file, words))):
        words.insert(0, "benchmark")
    words = [words[0], *(SHORT.get(word, word) for word in words[1:])]
    words = _without_packages(repeated(words))
    if words[0] == "benchmark" and "--help" not in words:
        words += _unless_given(words, "--device", "x86")
        words += _unless_given(words, "--timeout", _timeout())
    if words[0] in ("benchmark", "cache", "report") and "--help" not in words and os.environ.get(CACHE_VARIABLE):
        words += _unless_given(words, "--cache-dir", os.environ[CACHE_VARIABLE])
    return words


def _without_packages(words: Sequence[str]) -> list[str]:
    """`*.py` also means the `__init__.py` of a folder, which holds no model."""
    scripts = [word for word in words if is_file(word) and not word.endswith("__init__.py")]
    return [word for word in words if not (scripts and is_file(word) and word.endswith("__init__.py"))]


def is_file(word: str) -> bool:
    """Whether a word names scripts, ONNX files or lists of them."""
    return not word.startswith("-") and word.partition("::")[0].endswith(FILES)


def repeated(words: Sequence[str]) -> list[str]:
    """`--runtimes ort torch-eager` as `--runtimes ort --runtimes torch-eager`: until an option, or a file."""
    options: list[str] = []
    option = ""
    values = 0
    for word, following in zip_longest(words, words[1:], fillvalue="-"):
        if word in SEVERAL and word not in DASHED and following.startswith("-"):
            raise UsageError(f"{word} takes one value or several, and none follows.")
        if word.startswith("-"):
            option, values = (word, 0) if word in SEVERAL else ("", 0)
        elif option and values and not is_file(word) and _fits(option, word):
            options.append(option)
        elif option and values:
            option = ""
        values += not word.startswith("-")
        options.append(word)
    return options


def _fits(option: str, word: str) -> bool:
    """Whether a further word can be a value of this option, and not something else."""
    return "::" in word if option == "--labels" else True


def _timeout() -> str:
    text = os.environ.get(TIMEOUT_VARIABLE) or TIMEOUT_S
    if not text.isdecimal():
        raise UsageError(f"the variable {TIMEOUT_VARIABLE} takes whole seconds, not {text!r}.")
    return text


def _unless_given(words: Sequence[str], option: str, value: str) -> list[str]:
    present = any(word == option or word.startswith(f"{option}=") for word in words)
    return [] if present else [option, value]


def script_arguments(text: str) -> str:
    """`--batch_size=8,--max_seq_len=128` as a shell's words."""
    return re.sub(r",(?=-)", " ", text)
