"""The pytest plugin: a test that records its model, inputs and outputs also compiles, runs and checks that model.

    def test_net(record_property):
        record_property("model_name", "Net")
        outputs = model(x)
        record_property("proveout", (model, x, outputs))      # or "torch_ttnn"; `model.generate` too

`pytest --proveout-report DIR` keeps a Record of each and writes the report. torch is imported only for such tests.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

KEYS = ("proveout", "torch_ttnn")
MARKER = "compilation_xfail"


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
        folder, name = _folder(item.config), _model_name(item)
        if folder is not None and name:
            _proving().keep_failure(item, name, error, folder)
        raise
    taken = _taken(item)
    if taken is not None:
        _proving().prove(item, _model_name(item) or item.name, *taken, _folder(item.config))
    return result


def _proving() -> Any:
    """What does the work; importing it imports torch."""
    from proveout.pytest_plugin import proving

    return proving


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = _folder(session.config)
    if folder is None or hasattr(session.config, "workerinput"):  # xdist's workers keep Records; one writes the report
        return
    if any((folder / "cache").glob("*/*.json")):
        from proveout.report import write
        from proveout.store import Store

        write(Store(folder / "cache"), folder)


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
    properties = [(key, value) for key, value in item.user_properties if key in KEYS]
    item.user_properties[:] = [(key, value) for key, value in item.user_properties if key not in KEYS]
    if not properties:
        return None
    key, value = properties[-1]
    if not isinstance(value, tuple) or len(value) != 3:
        pytest.fail(f"record_property({key!r}, …) takes (model, inputs, outputs), not {type(value).__name__}.", False)
    return value


def _model_name(item: pytest.Item) -> str:
    """What the test calls its model; empty where it says nothing."""
    names = [value for key, value in item.user_properties if key == "model_name"]
    return str(names[-1]) if names else ""


def _folder(config: pytest.Config) -> Path | None:
    option = config.getoption("--proveout-report")
    return Path(option).expanduser() if option else None
