"""The two things a worker is asked to do: find the models of a script, and do one Job. Small values, sent anywhere."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from proveout.capture import Discovery, discover
from proveout.errors import ProveoutError
from proveout.isolate import Runner
from proveout.prove import failed, prove
from proveout.store import Store
from proveout.sweep.results import Rebuild, Result, keep, known, note_folders
from proveout.types import Job

if TYPE_CHECKING:
    from proveout.capture import How

_READ_AT_IMPORT = re.compile(r"\b(environ|putenv|setenv)\b")


@dataclass(frozen=True)
class Find:
    """Which models does a script call?"""

    script: Path
    how: How
    timeout_s: float
    cache: Path | None = None

    @property
    def name(self) -> str:
        return f"looking for models in {self.script.name}"

    def __call__(self, run: Runner) -> Discovery:
        try:
            return self.discovery(run)
        except Exception as error:  # whatever a script made of us is its own failure: the others go on
            gone = not self.script.is_file()
            if isinstance(error, ProveoutError) and not gone:
                raise
            why = f"{self.script.name} was removed while the sweep ran" if gone else unexpected(error)
            return Discovery(str(self.script), (), (), why, "", 0.0, "script" if gone else "internal")

    def discovery(self, run: Runner) -> Discovery:
        """What the cache has, or what `run` finds."""
        return discover(
            self.script,
            script_args=self.how.arguments(self.script),
            max_depth=self.how.max_depth,
            weights=self.how.weights,
            limits=self.how.limits,
            timeout_s=self.timeout_s,
            cache=self.cache,
            run=run,
        )


@dataclass(frozen=True)
class Prove:
    """The Record of one Job: the one that is there, or a new one; None where `rebuild` forbids to make it."""

    job: Job
    store: Path
    rebuild: Rebuild
    anywhere: bool = False

    @property
    def name(self) -> str:
        return f"{self.job.workload.name} on {self.job.device}: {', '.join(self.job.do)}"

    @property
    def script(self) -> Path:
        return Path(self.job.workload.script)

    def __call__(self, run: Runner) -> Result | None:
        store = Store(self.store)
        result = known(store, self.job, self.rebuild, self.anywhere)
        if result is not None or self.rebuild == "never":
            return result
        try:
            record = prove(self.job, run=run)
        except ProveoutError:
            raise
        except Exception as error:
            record = failed(self.job, "internal", unexpected(error))
        with contextlib.suppress(OSError):  # costs making them again, no more
            note_folders(self.job)
        return keep(store, record)


Task = Find | Prove


def unexpected(error: Exception) -> str:
    """An error that nobody foresaw, as a script's reason."""
    return f"an error of ours: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


def wants_fresh(script: Path) -> bool:
    """Whether a script sets environment variables: libraries read some when imported, so none may be imported yet."""
    return bool(_READ_AT_IMPORT.search(_text(script)))


def libraries(scripts: Sequence[Path]) -> list[str]:
    """Modules of slow libraries that some of these scripts import: worth importing once for all."""
    return [m for name, modules in SLOW.items() if any(_imports(name, script) for script in scripts) for m in modules]


SLOW = {"transformers": ("transformers", "transformers.modeling_utils")}


def _imports(name: str, script: Path) -> bool:
    return bool(re.search(rf"^\s*(import|from)\s+{name}\b", _text(script), re.MULTILINE))


@functools.lru_cache(maxsize=64)
def _text(script: Path) -> str:
    try:
        return script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
