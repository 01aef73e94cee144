"""The pytest plugin: a test that records its model, inputs and outputs also compiles, runs and checks that model.

    def test_net(record_property):
        record_property("model_name", "Net")
        outputs = model(x)
        record_property("proveout", (model, x, outputs))      # or "torch_ttnn"; `model.generate` too

`pytest --proveout-report DIR` keeps a Record of each and writes the report. torch is imported only for such tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from proveout.capture import Found
    from proveout.types import Job, Record, Workload

KEYS = ("proveout", "torch_ttnn")
MARKER = "compilation_xfail"
TIMED_CALLS = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("proveout", "models compiled by Proveout")
    group.addoption(
        "--proveout-report", metavar="DIR", help="Keep a Record of each recorded model, and write the report here."
    )
    group.addoption("--proveout-device", metavar="D", default="sim", help="Device to compile for [default: sim].")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(reason='', strict=False): the model runs in PyTorch, but its compiled version is expected to fail",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After the test's own body: compile, run and compare what it recorded."""
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        _taken(item)
        _keep_test_failure(item, error)
        raise
    asked = _taken(item)
    if asked is not None:
        _prove(item, *asked)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = _folder(session.config)
    if folder is None or hasattr(session.config, "workerinput"):  # xdist's workers keep Records; one writes the report
        return
    if any((folder / "cache").glob("*/*.json")):
        from proveout.report import write

        write(_store(folder), folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    folder = _folder(config)
    if folder is not None:
        page = folder / "report.html"
        terminalreporter.write_line(
            f"proveout: report in {page}" if page.exists() else "proveout: no test recorded a model, so no report"
        )


# ---------------------------------------------------------------------------------------- what a test recorded


def _taken(item: pytest.Item) -> tuple[Any, Any, Any] | None:
    """What the test gave, out of its properties: live objects can go neither into JUnit's XML nor to xdist."""
    given = [(key, value) for key, value in item.user_properties if key in KEYS]
    item.user_properties[:] = [(key, value) for key, value in item.user_properties if key not in KEYS]
    if not given:
        return None
    key, value = given[-1]
    if not isinstance(value, tuple) or len(value) != 3:
        pytest.fail(f"record_property({key!r}, …) takes (model, inputs, outputs), not {type(value).__name__}.", False)
    return value


def _model_name(item: pytest.Item) -> str:
    names = [value for key, value in item.user_properties if key == "model_name"]
    return str(names[-1]) if names else item.name


def _folder(config: pytest.Config) -> Path | None:
    given = config.getoption("--proveout-report")
    return Path(given).expanduser() if given else None


def _store(folder: Path) -> Any:
    from proveout.store import Store

    return Store(folder / "cache")


# ------------------------------------------------------------------------------------------------- proving


def _prove(item: pytest.Item, model: Any, inputs: Any, outputs: Any) -> None:
    from proveout.prove import prove_here

    found = _found(item, model, inputs)
    folder, marker = _folder(item.config), item.get_closest_marker(MARKER)
    record = prove_here(_job(item, found.workload, timed=folder is not None), found, outputs)
    reason = f"compiled {found.workload.name}: {record.reason}"
    expected = dict(marker.kwargs) if marker else {}
    if marker and record.status == "failed":
        record = dataclasses.replace(record, status="expected_failure")
    elif marker and expected.get("strict"):
        unexpected = f"was expected to fail, but passed: remove the marker {MARKER}"
        record = dataclasses.replace(record, status="failed", failure="expectation", reason=unexpected)
        reason = f"compiled {found.workload.name}: {unexpected}"
    if folder is not None:
        _store(folder).write(record)
    item.user_properties.append(("proveout_status", record.status))
    item.user_properties += [("proveout_pcc", str(record.pcc))] if record.pcc is not None else []
    if record.status == "expected_failure":
        pytest.xfail(f"{expected['reason']} ({reason})" if expected.get("reason") else reason)
    if record.status == "failed":
        pytest.fail(reason, pytrace=False)


def _found(item: pytest.Item, model: Any, inputs: Any) -> Found:
    """What the test recorded as capture would have found it."""
    import torch

    from proveout.capture import Found
    from proveout.capture.identity import architecture_of, parameter_count, selector_of
    from proveout.capture.inputs import named_tensors, specs_of
    from proveout.engine.compiled import as_call
    from proveout.types import Workload

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
    workload = Workload(
        _model_name(item), str(item.path), selector, class_name, specs, count, size, location=item.nodeid
    )
    return Found(workload, module, args, kwargs)


def _calling(owner: Any, method: str) -> Any:
    """A module whose forward is another method of a model."""
    import torch

    class Calling(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = owner

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(self.model, method)(*args, **kwargs)

    return Calling().train(owner.training)


def _job(item: pytest.Item, workload: Workload, timed: bool) -> Job:
    from proveout.devices.registry import ALIASES, find
    from proveout.types import Job, Settings

    device = item.config.getoption("--proveout-device")
    device = ALIASES.get(device, device)
    settings = Settings(precision="bfloat16" if find(device).target == "ttnn" else "model")
    if not timed:
        return Job(workload, device, settings, ("run",))
    return Job(workload, device, settings, ("check", "benchmark"), iterations=TIMED_CALLS, warmup=1)


def _keep_test_failure(item: pytest.Item, error: BaseException) -> None:
    """A test that names its model and fails before it could be compiled is a Record too."""
    folder = _folder(item.config)
    if folder is None or not any(key == "model_name" for key, _ in item.user_properties):
        return
    from proveout.types import Record, Workload, versions

    workload = Workload(_model_name(item), str(item.path), "", location=item.nodeid)
    first = (str(error).strip().splitlines() or [""])[0]
    record: Record = Record(
        _job(item, workload, timed=True),
        "failed",
        f"the test failed before its model was compiled: {type(error).__name__}: {first}",
        failure="script",
        environment=tuple(versions().items()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _store(folder).write(record)
