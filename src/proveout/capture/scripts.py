"""Which scripts a user means: files, folders, globs, lists, corpora."""

from __future__ import annotations

import ast
import difflib
import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from proveout.errors import EnvironmentFault, UsageError, unknown

_PACKAGE = Path(__file__).parents[1]
_KINDS = (".py", ".onnx")


def resolve(
    names: Sequence[str], search_dirs: Sequence[str] = (), all: bool = False
) -> list[tuple[Path, tuple[str, ...]]]:
    """The scripts meant, each with the selectors asked for (none: all its models), sorted, each script once.

    A name is a script (`linear.py`, `linear.py::HASH,HASH`), a folder, a glob, a `.txt` list of names, or a
    script below one of the search dirs. A search dir is a folder or the name of a corpus. With `all`, every
    script of the search dirs is meant; without search dirs, of every corpus.
    """
    folders = [_folder(name) for name in search_dirs]
    chosen: dict[Path, set[str] | None] = {}
    if all:
        for folder in folders or [corpora_folder()]:
            _choose(chosen, _scripts_of(folder), ())
    for name, places in _spelled_out(names, [Path.cwd(), *folders]):
        pattern, selectors = _split(name)
        _choose(chosen, _look_up(pattern, places, folders), selectors)
    if not chosen:
        raise UsageError(
            "no script was named. Name one (linear.py), or take a whole corpus: --all --search-dir selftest"
        )
    if len(chosen) == 1:  # of several, the others run, and this one's row says what is wrong
        _parse(*chosen)
    return [(path, tuple(sorted(chosen[path] or ()))) for path in sorted(chosen)]


def corpora_folder() -> Path:
    """The folder of the corpora: inside the installed package, or at the root of a source tree."""
    places = (_PACKAGE / "corpora", _PACKAGE.parents[1] / "corpora")
    for place in places:
        if place.is_dir():
            return place
    raise EnvironmentFault(f"the corpora are missing; looked in {places[0]} and {places[1]}. Install proveout again.")


def corpora() -> dict[str, Path]:
    """The corpora by name: every folder there but Python's and git's own."""
    return {path.name: path for path in sorted(corpora_folder().iterdir()) if path.is_dir() and _public(path.name)}


def corpus_names() -> list[str]:
    """What `--search-dir` takes by name."""
    return sorted(_corpora())


def takes_small(script: Path) -> bool:
    """Whether a script, or a module beside it that it imports, reads its parameters with `proveout.parser`."""
    seen: set[Path] = set()
    left = [script]
    while left:
        path = left.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # running it will say so
            continue
        if _PARSER.search(text):
            return True
        left += [script.parent / f"{name.replace('.', '/')}.py" for name in _IMPORT.findall(text)]
    return False


_PARSER = re.compile(r"^\s*(?:from|import)\s+proveout(?:\.parser\b|\s+import\s.*\bparser\b)", re.M)
_IMPORT = re.compile(r"^\s*(?:from|import)\s+\.?([A-Za-z_][\w.]*)", re.M)


def _choose(chosen: dict[Path, set[str] | None], scripts: Iterable[Path], selectors: tuple[str, ...]) -> None:
    """Add scripts; one named both with and without selectors is meant as a whole."""
    for script in scripts:
        before = chosen.get(script, set())
        chosen[script] = None if before is None or not selectors else before | set(selectors)


def _spelled_out(names: Sequence[str], places: Sequence[Path]) -> Iterator[tuple[str, Sequence[Path]]]:
    """Every name with the places to look from; a list's names, one a line, are seen from the list's folder first."""
    for name in names:
        listing = next((p for p in (_at(place, name) for place in places) if p.suffix == ".txt" and p.is_file()), None)
        if listing is None:
            yield name, places
            continue
        try:
            text = listing.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{listing} is not a text file. A list holds one script's name a line.") from None
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        if not any(lines):
            raise UsageError(f"{listing} lists no scripts. Write one name a line.")
        yield from ((line, [listing.parent, *places]) for line in lines if line)


def _at(place: Path, name: str) -> Path:
    if "\0" in name or any(len(os.fsencode(part)) > 255 for part in Path(name).parts):
        raise UsageError(f"{name[:60]!r}… is too long or too odd to be the name of a script.")
    return Path(os.path.abspath(place / Path(name).expanduser()))


def _split(name: str) -> tuple[str, tuple[str, ...]]:
    pattern, mark, tail = name.partition("::")
    selectors = tuple(tail.split(",")) if mark else ()
    for selector in selectors:
        if not re.fullmatch("[0-9a-f]{12}|[0-9a-f]{8}", selector):
            raise UsageError(
                f"{name!r}: {selector!r} is not a hash of 12 hex digits, nor of MLAgility's 8."
                f" Run: proveout discover {pattern}"
            )
    return pattern, selectors


def _look_up(pattern: str, places: Sequence[Path], folders: Sequence[Path]) -> list[Path]:
    """The scripts that one name means: seen from a place, the first that has it, or anywhere below a search dir."""
    for place in places:
        path = _at(place, pattern)
        if path.is_dir():
            return _scripts_of(path)
        if path.is_file():
            return [_python(path)]
        if glob.has_magic(pattern):
            hits = [Path(hit) for hit in sorted(glob.glob(str(path), recursive=True)) if _public(Path(hit).name)]
            candidates = (s for hit in hits for s in (_scripts_below(hit) if hit.is_dir() else [hit]))
            scripts = [script for script in candidates if script.suffix in _KINDS]
            if scripts:
                return scripts
    if pattern in _corpora():
        return _scripts_of(_corpora()[pattern])
    below = sorted({s for folder in folders for s in _scripts_below(folder) if _ends_with(s, pattern)})
    if len(below) == 1:
        return below
    if below:
        raise UsageError(f"{pattern!r} means {len(below)} scripts: {_listing(below)}. Name one by its path.")
    raise _missing(pattern, places)


def _parse(script: Path) -> None:
    """A script that is not Python is told before anything starts."""
    if script.suffix != ".py":
        return
    try:
        ast.parse(script.read_bytes())
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        where = f":{error.lineno}" if error.lineno else ""
        raise UsageError(f"{script.name}{where} is not valid Python: {error.msg}{line}") from None
    except ValueError as error:  # null bytes
        raise UsageError(f"{script.name} is not a Python script: {error}.") from None
    except (RecursionError, MemoryError):  # the run itself says more
        return


def _python(path: Path) -> Path:
    if path.suffix not in _KINDS:
        raise UsageError(f"{path} is not a Python script (*.py), an ONNX file, a folder, or a list of scripts (*.txt).")
    return path


def _folder(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        return Path(os.path.abspath(path))
    known = _corpora()
    if name not in known:
        raise unknown("search dir (neither a folder here nor a corpus)", name, known)
    return known[name]


def _corpora() -> dict[str, Path]:
    """The corpora by name, those of MLAgility by its names too."""
    folders = corpora()
    return folders | {name: folders[ours] for name, ours in _OTHER_NAMES.items() if ours in folders}


_OTHER_NAMES = {"transformers_pytorch": "transformers"}


def _scripts_of(folder: Path) -> list[Path]:
    scripts = _scripts_below(folder)
    if not scripts:
        raise UsageError(f"{folder} holds no scripts (*.py whose name does not start with `_`). Name another folder.")
    return scripts


def _scripts_below(folder: Path) -> list[Path]:
    scripts = (path for path in folder.rglob("*.py") if path.is_file())
    return sorted(path for path in scripts if all(map(_public, path.relative_to(folder).parts)))


def _public(name: str) -> bool:
    return not name.startswith(("_", "."))


def _ends_with(script: Path, pattern: str) -> bool:
    tail = Path(pattern).parts
    return script.parts[-len(tail) :] == tail


def _missing(pattern: str, places: Sequence[Path]) -> UsageError:
    """Says what was looked for, where, and what comes near."""
    folder = corpora_folder()
    known = {*_scripts_below(folder), *(script for place in places for script in place.glob("*.py"))}
    wanted = Path(pattern).name
    near = difflib.get_close_matches(Path(wanted).stem, sorted({script.stem for script in known}), n=3, cutoff=0.7)
    matches = sorted((near.index(script.stem), script) for script in known if script.stem in near)[:5]
    shown = [str(s.relative_to(folder) if s.is_relative_to(folder) else s) for _, s in matches]
    hint = f" Near: {', '.join(shown)}." if shown else ""
    corpus = next((s.parent.name for _, s in matches if s.name == wanted and s.parent.parent == folder), "")
    step = f"Add: --search-dir {corpus}" if corpus else "Name a script, a folder, a glob or a list (*.txt)."
    return UsageError(f"no script {pattern!r}; looked in {', '.join(map(str, places))}.{hint} {step}")


def _listing(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths[:5])) + (" …" if len(paths) > 5 else "")
