"""`proveout compat`: other systems' import names in plain `python script.py`."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from proveout.cli import main
from proveout.cli.verbs.compat import text

SRC = Path(__file__).parents[2] / "src"

SCRIPT = """
import torch
import torch.neuron
import torch_neuronx
import neuronperf as npf
import neuronperf.torch
import torch_ttnn
import ttnn
from mlagility.common.labels import load_from_cache
from mlagility.parser import parse
import mlagility.parser
import proveout.compat.mlagility.parser

assert torch.neuron.trace is torch_neuronx.trace
assert npf.torch.benchmark is neuronperf.torch.benchmark
assert callable(npf.benchmark) and callable(torch_ttnn.backend) and callable(ttnn.from_torch)
assert mlagility.parser is proveout.compat.mlagility.parser and mlagility.parser.parse is parse

from proveout.devices.registry import devices
unavailable = {name: info.reason for name, info in devices().items()}
assert "not installed" in unavailable["ttnn"], unavailable
print("served")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment of its own that sees this one's packages."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, system_site_packages=False, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    here = [entry for entry in sys.path if entry.endswith("site-packages")]
    Path(packages, "here.pth").write_text("\n".join([str(SRC), *here]) + "\n")
    return folder


def python(environment, *arguments, **kwargs):
    command = [str(environment / "bin" / "python"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin"}, **kwargs)


def switch(environment, word):
    return python(environment, "-c", f"import sys; from proveout.cli import main; sys.exit(main(['compat', '{word}']))")


@pytest.mark.slow
def test_on_serves_their_names_in_plain_python_and_off_does_not(environment, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert "No module named 'torch.neuron'" in python(environment, str(script)).stderr
    assert switch(environment, "on").returncode == 0
    done = python(environment, str(script))
    assert done.stdout == "served\n", done.stderr
    assert "served by Proveout" in switch(environment, "status").stdout
    assert "not served" in switch(environment, "off").stdout
    assert "No module named 'torch.neuron'" in python(environment, str(script)).stderr


def test_on_is_refused_beside_a_real_package(environment):
    (packages,) = environment.glob("lib/python*/site-packages")
    switch(environment, "off")
    real = packages / "neuronperf.py"
    real.write_text("real = True\n")
    try:
        refused = switch(environment, "on")
        assert (refused.returncode, "neuronperf is installed here" in refused.stderr) == (3, True)
        assert not (packages / "proveout-compat.pth").exists()
    finally:
        real.unlink()


def test_where_the_environment_cannot_be_written_it_says_what_to_use(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "nowhere"))
    assert main(["compat", "on"]) == 3
    assert "Use an environment of your own." in capsys.readouterr().err


def test_python_starts_silently_once_proveout_is_uninstalled_while_it_was_on(environment):
    """Uninstalling leaves the file that `on` wrote."""
    (packages,) = environment.glob("lib/python*/site-packages")
    left = packages / "proveout-compat.pth"
    left.write_text(text(environment / "gone"))
    try:
        started = python(environment, "-c", "print('started')")
        assert (started.stdout, started.stderr) == ("started\n", "")
    finally:
        left.unlink()


def test_a_folder_named_mlagility_beside_a_script_is_not_the_package(tmp_path, monkeypatch):
    from proveout.compat import is_installed
    from proveout.compat.mlagility.served import mlagility_names

    (tmp_path / "mlagility").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("mlagility")
    with mlagility_names():
        from mlagility.parser import parse
    assert callable(parse)
