"""From scripts to Workloads: which scripts are meant, which models they call, and those models live again.

resolve(["linear.py"], ["selftest"])   the scripts that a user's words mean
with_labels(scripts, ["tags::daily"])  those of them that have all these labels
discover(script)                       its Workloads, found in a process of its own
watch(script, "--batch_size 8")        the same in this process, with the live modules and their inputs
load(workload)                         one live module and its inputs

Names are imported when they are first used: the process that runs a script pays for what it uses only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proveout.capture.discovery import Discovery, How, discover
    from proveout.capture.labels import read_labels, with_labels
    from proveout.capture.scripts import corpora_folder, resolve
    from proveout.capture.watcher import LiveModel, load, watch

_HOMES = {
    "Discovery": "discovery",
    "LiveModel": "watcher",
    "How": "discovery",
    "corpora_folder": "scripts",
    "discover": "discovery",
    "load": "watcher",
    "read_labels": "labels",
    "resolve": "scripts",
    "watch": "watcher",
    "with_labels": "labels",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'proveout.capture' has no attribute {name!r}")
    return getattr(importlib.import_module(f"proveout.capture.{_HOMES[name]}"), name)


__all__ = [
    "Discovery",
    "LiveModel",
    "How",
    "corpora_folder",
    "discover",
    "load",
    "read_labels",
    "resolve",
    "watch",
    "with_labels",
]
