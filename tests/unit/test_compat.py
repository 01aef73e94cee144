"""Other systems' names are importable from `proveout` in every way that their users write, and are one module each."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import pytest

import proveout as npf
from proveout.compat import NAMES

LINES = (
    "import proveout.torch; proveout.torch.benchmark",
    "import proveout.cpu; proveout.cpu.evaluate",
    "import proveout as npf; npf.torch.benchmark; npf.sim.compile; npf.cuda.benchmark; npf.model_index.create",
    "from proveout import ttnn, torch_ttnn; torch_ttnn.TorchTtnnOption(device='sim')",
    "from proveout.parser import parse; assert parse(['batch_size']).batch_size == 1",
    "from proveout.labels import load_from_cache",
    "import proveout.model_index as index; index.create('a.pt')",
    "from proveout import parser, labels; parser.PARAMETERS; labels.load_from_cache",
)


@pytest.mark.slow
def test_each_import_works_in_a_fresh_process():
    program = "import subprocess, sys, os\n" + "".join(
        f"if not (pid := os.fork()): exec({line!r}); os._exit(0)\n"
        f"if os.waitpid(pid, 0)[1]: sys.exit('fails: ' + {line!r})\n"
        for line in LINES
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_module_whichever_way_it_is_imported(name):
    at_home = importlib.import_module(f"proveout.compat.{NAMES[name]}")
    assert importlib.import_module(f"proveout.{name}") is at_home
    assert getattr(npf, name) is at_home
    assert at_home.__spec__.name == f"proveout.compat.{NAMES[name]}"
    assert importlib.util.find_spec(f"proveout.{name}") is not None


def test_parameters_are_read_without_torch():
    check = "import sys; from proveout.parser import parse; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_another_name_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"proveout\.jax"):
        importlib.import_module("proveout.jax")
