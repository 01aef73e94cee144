"""400 damaged Programs, saved models and cache entries each: an error of ours or a result, and no code of theirs."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mutate import CANARY, PAYLOADS, damaged, mutated, rewritten

import proveout
from proveout.arguments import arg_from_json, arg_to_json
from proveout.devices.registry import open_device
from proveout.engine import cache
from proveout.engine.artifact import load_compiled
from proveout.errors import DeviceError, ProveoutError, UsageError
from proveout.kernels.accept import load_program, shortened
from proveout.kernels.signatures import parameters
from proveout.kernels.table import kernels
from proveout.program import Constant, Construct, Name, Program, Ref, Step
from proveout.report.script import render
from proveout.types import DRAM, Settings, TensorSpec

LONG = pytest.param(5000, marks=pytest.mark.fuzz)


class Small(torch.nn.Module):
    """Products, a host op, a constant, several outputs of which one is an argument's view."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)
        self.table = torch.arange(8.0)

    def forward(self, x, *, shift):
        y = torch.relu(self.linear(x) + self.table) * shift
        return {"y": y, "parts": [y.sum(-1), torch.linalg.svdvals(y)], "back": x.view(-1)}


X, SHIFT = (torch.randn(4, 8, generator=torch.Generator().manual_seed(s)) for s in (1, 2))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    os.environ["PROVEOUT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    compiled = proveout.compile(Small().eval(), device="sim", call=((X,), {"shift": SHIFT}))
    return compiled.save(tmp_path_factory.mktemp("saved") / "small")


def damage_one_file(folder: Path, rng: random.Random) -> None:
    """One file of a folder: its JSON changed in a few places, or its bytes."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    path = rng.choice(files)
    chance = rng.random()
    if path.suffix == ".json" and chance < 0.6:
        path.write_text(json.dumps(mutated(json.loads(path.read_text()), rng)))
    elif path.suffix == ".json" and chance < 0.85:
        path.write_text(rewritten(path.read_text(), rng))
    elif path.suffix == ".safetensors" and chance < 0.4:
        path.write_bytes(_with_other_header(path.read_bytes(), rng))
    elif rng.random() < 0.05:
        path.unlink()
    else:
        path.write_bytes(damaged(path.read_bytes(), rng))


def take_for_its_own(folder: Path) -> None:
    """Let a saved model name the Program that lies beside it now, as whoever forges one would."""
    with contextlib.suppress(Exception):
        head = json.loads((folder / "compiled.json").read_text())
        head["program"] = Program.load(folder / "program").fingerprint
        (folder / "compiled.json").write_text(json.dumps(head))


def _with_other_header(data: bytes, rng: random.Random) -> bytes:
    """The same tensors under another description."""
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(mutated(json.loads(data[8 : 8 + size]), rng)).encode()
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


@pytest.mark.parametrize("number", [400, LONG])
def test_a_damaged_program_is_refused_or_works(saved, tmp_path, canary, number):
    device, refused = open_device("sim"), 0
    for seed in range(number):
        rng, folder = random.Random(seed), tmp_path / "program"
        shutil.copytree(saved / "program", folder)
        damage_one_file(folder, rng)
        try:
            program = load_program(folder)
            str(program), program.fingerprint
            compile(render(program, "a title"), "model.py", "exec")
            device.load(program, Settings())
        except ProveoutError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        shutil.rmtree(folder)
    assert number * 0.4 < refused < number


@pytest.mark.parametrize("number", [400, LONG])
def test_a_damaged_saved_model_is_refused_or_gives_the_same(saved, tmp_path, canary, number):
    wanted, refused = load_compiled(saved)(X, shift=SHIFT), 0
    for seed in range(number):
        folder = tmp_path / "model"
        shutil.copytree(saved, folder)
        rng = random.Random(seed)
        damage_one_file(folder, rng)
        if rng.random() < 0.7:
            take_for_its_own(folder)
        try:
            loaded = load_compiled(folder)
        except UsageError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        else:
            try:
                gave = loaded(X, shift=SHIFT)
            except DeviceError:  # it takes another call now, and says which
                continue
            leaves = torch.utils._pytree.tree_leaves
            pairs = zip(leaves(gave), leaves(wanted), strict=True)
            assert all(torch.allclose(a, b, rtol=0.05, atol=0.05) for a, b in pairs), f"seed {seed}: other numbers"
        finally:
            shutil.rmtree(folder)
    assert number * 0.4 < refused < number


def entry_of(path: Path):
    seal, _, payload = path.read_bytes().partition(b"\n")
    head, _, blob = payload.partition(b"\n")
    return seal, json.loads(head), blob


@pytest.mark.parametrize("forged", [False, True], ids=["damaged", "sealed again"])
@pytest.mark.parametrize("number", [200, LONG])
def test_a_damaged_cache_entry_costs_a_compile(tmp_path, monkeypatch, canary, number, forged):
    """Also where whoever changed it could write this user's seal: then the schema and the graph still bind it."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1)).eval()
    kept, real = [], cache.load

    def load(*args):
        kept.append(args)
        return real(*args)

    monkeypatch.setattr(cache, "load", load)
    compiled = proveout.compile(model, X, device="sim")
    (path,) = Path(os.environ["PROVEOUT_CACHE"], "programs").glob("*.program")
    key, wanted, whole = kept[0][0], compiled(X), path.read_bytes()
    device, used = open_device("sim"), 0
    for seed in range(number):
        rng = random.Random(seed)
        if forged:
            _, head, blob = entry_of(path)
            payload = json.dumps(mutated(head, rng)).encode() + b"\n" + damaged(blob, rng)[: len(blob)].ljust(len(blob))
            path.write_bytes(cache._seal(key, payload) + b"\n" + payload)
        else:
            path.write_bytes(damaged(whole, rng))
        try:
            found = real(*kept[0])
            if found is not None:
                used += 1
                assert forged or path.read_bytes() == whole, f"seed {seed}: it was not sealed"
                loaded = device.load(found.program, Settings())
                loaded.set_weights(dict(zip(found.program.weights, model[0].parameters())))
                loaded.run([X])
        except ProveoutError:
            pass
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        path.write_bytes(whole)
    assert torch.equal(proveout.compile(model, X, device="sim")(X), wanted)
    assert used < number


# ---- what was found by hand ---------------------------------------------------------------------------------------

SPEC, ON_HOST = TensorSpec((2, 32), "float32", "tile", DRAM), TensorSpec((2, 32), "float32")


def one_step(kernel, attrs, **more):
    step = Step(kernel, attrs, ("y",))
    return Program("p", "torch", ("x",), (), (), (Ref("y"),), (), (step,), {"x": ON_HOST, "y": ON_HOST}, **more)


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
@pytest.mark.parametrize("where", ["attribute", "kernel", "name", "host"])
def test_no_text_of_a_program_becomes_code(tmp_path, canary, payload, where):
    program = {
        "attribute": one_step("ttnn.relu", ((payload, Ref("x")),)),
        "kernel": one_step(f"ttnn.{payload}", (("input_tensor", Ref("x")),)),
        "name": one_step("ttnn.relu", (("input_tensor", Ref("x")), ("memory_config", Name(payload)))),
        "host": one_step(payload, (("self", Ref("x")),)),
    }[where]
    with pytest.raises(UsageError):
        load_program(program.save(tmp_path / "saved"))
    with contextlib.suppress(Exception):  # a device that is handed it all the same runs none of it
        open_device("cpu").load(program, Settings()).run([X])


def test_a_setup_step_names_an_op_or_nothing(tmp_path):
    step = Step("import_module", (("module", "antigravity"),), ("w",))
    program = Program("p", "torch", (), (), (), (Ref("w"),), (step,), (), {"w": ON_HOST})
    with pytest.raises(UsageError, match="'import_module' is not the name of an op"):
        load_program(program.save(tmp_path))


@pytest.mark.parametrize(
    "op", ["aten.save.default", "aten.from_file.default", "aten.add_.Tensor", "inductor.seed.default"]
)
def test_ops_that_do_more_than_compute_are_refused(tmp_path, op):
    with pytest.raises(UsageError, match=r"does more than compute|no op|not trusted|takes no"):
        load_program(one_step(op, (("self", Ref("x")),)).save(tmp_path))


@pytest.mark.parametrize(
    ("kernel", "attrs", "told"),
    [
        ("ttnn.relu", (("input_tensor", Ref("x")), ("memory_config", Name("device"))), "memory_config of ttnn.relu is"),
        ("aten._to_copy.default", (("self", Ref("x")), ("device", "meta")), "no plain tensor of the host"),
        ("aten.to_sparse.default", (("self", Ref("x")),), "no plain tensor of the host"),
    ],
    ids=["the device anywhere", "another device", "sparse"],
)
def test_what_a_program_may_not_hold_is_a_sentence(tmp_path, capfd, kernel, attrs, told):
    with pytest.raises(UsageError, match=told):
        load_program(one_step(kernel, attrs).save(tmp_path))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("grid", [Construct.of("ttnn.CoreCoord", "eight", 8), Construct.of("ttnn.CoreCoord", ())])
def test_a_grid_that_counts_no_cores_is_refused_before_anybody_plans_with_it(tmp_path, grid):
    program = proveout.compile(torch.nn.Linear(8, 8), X, device="sim").program
    config = Construct.of("ttnn.MatmulMultiCoreReuseProgramConfig", compute_with_storage_grid_size=grid)

    def changed(step):
        attrs = tuple((k, v) for k, v in step.attrs if k != "program_config")
        return replace(step, attrs=(*attrs, ("program_config", config))) if "linear" in step.kernel else step

    with pytest.raises(UsageError, match="its Steps do not fit each other"):
        load_program(replace(program, body=tuple(map(changed, program.body))).save(tmp_path))


def test_a_long_quotation_is_one_short_line():
    assert shortened("a\n" * 9000) == "a " * 200 + "…"


@pytest.mark.parametrize("activation", ["relu", Name("device"), Name("ttnn.UnaryOpType.EXP"), 3])
def test_an_activation_that_no_kernel_runs_inside_is_not_left_out(activation):
    add = kernels()["ttnn.add"].meaning
    with pytest.raises(ValueError, match="is no activation that runs inside a kernel"):
        add(torch.ones(2), input_tensor_b=torch.ones(2), activations=(activation,))


def test_a_constant_has_as_many_bytes_as_its_spec_says(tmp_path):
    program = one_step("ttnn.relu", (("input_tensor", Ref("x")),), chips=1)
    short = Program(
        **{**vars(program), "constants": (Constant("c", b"123"),), "specs": {**program.specs, "c": ON_HOST}}
    )
    with pytest.raises(UsageError, match="constant 'c' has 3 bytes where its spec needs 256"):
        load_program(short.save(tmp_path))


@pytest.mark.parametrize("kernel", ["ttnn.deallocate", "ttnn.to_layout", "ttnn.to_memory_config"])
def test_a_step_that_only_moves_a_value_has_one(tmp_path, kernel):
    name = next(iter(parameters(kernel)))
    step = Step(kernel, ((name, 3),), () if kernel == "ttnn.deallocate" else ("y",))
    program = Program("p", "torch", ("x",), (), (), (Ref("x"),), (), (step,), {"x": ON_HOST, "y": ON_HOST})
    with pytest.raises(UsageError, match="is given no value"):
        load_program(program.save(tmp_path))


ODD_FILES = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a device": lambda path: os.symlink("/dev/zero", path),
    "itself": lambda path: os.symlink(path, path),
    "nothing": lambda path: os.symlink("/nonexistent", path),
    "a pickle": lambda path: Path(path).write_bytes(pickle.dumps(Bomb())),
    "longer than a disk": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 43),
    "deep": lambda path: Path(path).write_text("[" * 200_000),
    "a long number": lambda path: Path(path).write_text('{"schema": ' + "9" * 10_000 + "}"),
    "not a number": lambda path: Path(path).write_text('{"schema": NaN}'),
    "half a character": lambda path: Path(path).write_text('{"schema": "\\ud800"}'),
    "another alphabet": lambda path: Path(path).write_text('{"schema": 4}', encoding="utf-16"),
    "a long header": lambda path: Path(path).write_bytes((1 << 62).to_bytes(8, "little") + b"{}"),
}


class Bomb:
    def __reduce__(self):
        return open, (CANARY, "w")


@pytest.mark.parametrize("what", ODD_FILES)
def test_a_file_of_a_saved_model_that_is_something_else_is_told(saved, tmp_path, canary, what):
    """A pipe would never end, a device neither, and a pickle is code."""
    files = [p.relative_to(saved) for p in sorted(saved.rglob("*")) if p.is_file()]
    for name in files:
        folder = tmp_path / "model"
        shutil.copytree(saved, folder)
        (folder / name).unlink()
        ODD_FILES[what](str(folder / name))
        with pytest.raises(UsageError):
            load_compiled(folder)
        shutil.rmtree(folder)


def test_an_entry_of_another_graph_is_not_taken_for_this_one(tmp_path):
    folder = Path(os.environ["PROVEOUT_CACHE"], "programs")
    proveout.compile(torch.nn.ReLU(), X)
    (first,) = folder.glob("*.program")
    torch._dynamo.reset()
    proveout.compile(torch.nn.Sigmoid(), X)
    (second,) = set(folder.glob("*.program")) - {first}
    shutil.copy(first, second)
    torch._dynamo.reset()
    torch.testing.assert_close(proveout.compile(torch.nn.Sigmoid(), X)(X), torch.sigmoid(X), rtol=0.02, atol=0.02)


def test_a_seal_that_others_can_read_is_not_used(tmp_path):
    proveout.compile(torch.nn.ReLU(), X)
    (secret,) = Path(os.environ["PROVEOUT_CACHE"], "programs").glob(".seal-*")
    assert secret.stat().st_mode & 0o777 == 0o600
    secret.chmod(0o644)
    torch._dynamo.reset()
    compiled = proveout.compile(torch.nn.ReLU(), X)
    assert "lower" in dict(compiled.stages_s)


def test_every_kind_that_is_written_can_be_read():
    """A kind of value that `arg_to_json` learns needs a row in `_DECODE`, and one in `accept.KINDS`."""
    from proveout.kernels.accept import KINDS

    for value in (Ref("x"), Name("device"), float("nan"), 1j, (1, (2,)), "text", None, True, 3, 0.5):
        again = arg_from_json(json.loads(json.dumps(arg_to_json(value))))
        assert repr(again) == repr(value)
        assert type(value) in KINDS
