"""NeuronPerf under its own import name, in a folder of the test's own."""

import pytest

from proveout.compat import stand_in

for package in ("neuronperf", "torch_neuron", "torch_neuronx"):
    stand_in(package)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
