"""From scripts to Workloads: which scripts are meant, which models they call, and those models live again.

resolve(["linear.py"], ["selftest"])   the scripts that a user's words mean
with_labels(scripts, ["tags::daily"])  those of them that have all these labels
discover(script)                       its Workloads, found in a process of its own
watch(script, "--batch_size 8")        the same in this process, with the live modules and their inputs
load(workload)                         one live module and its inputs

Names are imported when they are first used: the process that runs a script pays for what it uses only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proveout.lazy import lazy

if TYPE_CHECKING:
    from proveout.capture.discovery import Discovery, How, discover
    from proveout.capture.labels import read_labels, with_labels
    from proveout.capture.scripts import corpora_folder, resolve
    from proveout.capture.watcher import LiveModel, load, watch


__getattr__ = lazy(
    __name__,
    {
        "proveout.capture.discovery": "Discovery How discover",
        "proveout.capture.watcher": "LiveModel load watch",
        "proveout.capture.scripts": "corpora_folder resolve",
        "proveout.capture.labels": "read_labels with_labels",
    },
)

__all__ = [
    "Discovery", "LiveModel", "How", "corpora_folder", "discover", "load", "read_labels", "resolve", "watch",
    "with_labels",
]  # fmt: skip
