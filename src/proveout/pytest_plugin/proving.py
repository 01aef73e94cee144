"""What a test recorded is compiled, run, compared and kept; imported by the first test that recorded something."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from proveout.capture import LiveModel
from proveout.capture.identity import architecture_of, parameter_count, selector_of
from proveout.capture.inputs import named_tensors, specs_of
from proveout.devices.registry import find, settings_for
from proveout.engine.compiled import as_call
from proveout.prove import prove_here
from proveout.pytest_plugin import MARKER
from proveout.store import Store
from proveout.types import Job, Record, Workload, versions

TIMED_CALLS = 5


def prove(item: pytest.Item, name: str, model: Any, inputs: Any, outputs: Any, folder: Path | None) -> None:
    """Compile, run and compare a recorded model; the test fails where that does."""
    candidate = _live_model(item, name, model, inputs)
    marker = item.get_closest_marker(MARKER)
    record = prove_here(_job(item, candidate.workload, timed=folder is not None), candidate, outputs)
    reason = f"compiled {candidate.workload.name}: {record.reason}"
    expected = dict(marker.kwargs) if marker else {}
    if marker and record.status == "failed":
        record = dataclasses.replace(record, status="expected_failure")
    elif marker and expected.get("strict"):
        unexpected = f"was expected to fail, but passed: remove the marker {MARKER}"
        record = dataclasses.replace(record, status="failed", failure="expectation", reason=unexpected)
        reason = f"compiled {candidate.workload.name}: {unexpected}"
    if folder is not None:
        Store(folder / "cache").write(record)
    item.user_properties.append(("proveout_status", record.status))
    item.user_properties += [("proveout_pcc", str(record.pcc))] if record.pcc is not None else []
    if record.status == "expected_failure":
        pytest.xfail(f"{expected['reason']} ({reason})" if expected.get("reason") else reason)
    if record.status == "failed":
        pytest.fail(reason, pytrace=False)


def _live_model(item: pytest.Item, name: str, model: Any, inputs: Any) -> LiveModel:
    """What the test recorded as capture would have found it."""
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        module: torch.nn.Module = _calling(owner, model.__name__)
        class_name = f"{type(owner).__name__}.{model.__name__}"
    elif isinstance(model, torch.nn.Module):
        module, class_name = model, type(model).__name__
    else:
        pytest.fail(f"the recorded model must be a torch.nn.Module or its generate, not {type(model).__name__}.", False)
    args, kwargs = as_call(dict(inputs) if isinstance(inputs, Mapping) else inputs)
    specs = specs_of(named_tensors(args, kwargs))
    count, size = parameter_count(module)
    selector = selector_of(architecture_of(module), specs)
    workload = Workload(name, str(item.path), selector, class_name, specs, count, size, location=item.nodeid)
    return LiveModel(workload, module, args, kwargs)


def _calling(owner: Any, method: str) -> Any:
    """A module whose forward is another method of a model."""

    class Calling(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = owner

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(self.model, method)(*args, **kwargs)

    return Calling().train(owner.training)


def _job(item: pytest.Item, workload: Workload, timed: bool) -> Job:
    info = find(item.config.getoption("--proveout-device"))
    device, settings = info.name, settings_for(info.name)
    if not timed:
        return Job(workload, device, settings, ("run",))
    return Job(workload, device, settings, ("check", "benchmark"), iterations=TIMED_CALLS, warmup=1)


def keep_failure(item: pytest.Item, name: str, error: BaseException, folder: Path) -> None:
    """A test that names its model and fails before it could be compiled is a Record too."""
    workload = Workload(name, str(item.path), "", location=item.nodeid)
    first = (str(error).strip().splitlines() or [""])[0]
    record = Record(
        _job(item, workload, timed=True),
        "failed",
        f"the test failed before its model was compiled: {type(error).__name__}: {first}",
        failure="script",
        environment=tuple(versions().items()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    Store(folder / "cache").write(record)
