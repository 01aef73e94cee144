"""What earlier discoveries found, so that a sweep that goes on does not run every script again.

`<cache>/discoveries/ab/<key>.json`; the key is the script's content and how it was run. An entry counts while the
modules beside the script and the libraries it came from are as they were.
"""

from __future__ import annotations

import json
import os
import secrets
from importlib import metadata
from pathlib import Path
from typing import Any

from proveout.capture.running import file_digest
from proveout.coding import digest, read_json
from proveout.types import versions


def recall(folder: Path, script: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    """What this very script gave when it was run like this; None where nothing that still holds is known."""
    try:
        entry: dict[str, Any] = read_json(_path(folder, script, request))
        discovery = entry["found"]
        same_files = all(file_digest(script.parent / name) == value for name, value in discovery["files"])
        same_packages = all(_version(name) == value for name, value in discovery["packages"].items())
        more_time = discovery["failure"] == "timeout" and request["timeout_s"] > entry["asked"]["timeout_s"]
        other_limits = discovery["failure"] and request["limits"] != entry["asked"]["limits"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return entry if same_files and same_packages and not more_time and not other_limits else None


def remember(
    folder: Path, script: Path, request: dict[str, Any], result: dict[str, Any], log: str, seconds: float
) -> None:
    """Keep a discovery; a cache that cannot be written costs time only, so it is no error here."""
    path = _path(folder, script, request)
    entry = {"asked": request, "found": result, "log": log, "seconds": seconds}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(entry, ensure_ascii=False, allow_nan=False), encoding="utf-8")
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)


def _path(folder: Path, script: Path, request: dict[str, Any]) -> Path:
    how = {name: request[name] for name in ("script_args", "max_depth", "weights")}
    key = digest([script.name, file_digest(script), how, sorted(versions().items())])[:20]
    return folder / "discoveries" / key[:2] / f"{key}.json"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
