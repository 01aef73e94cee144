"""Scripts, labels and the models found by watching calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from proveout.labels import load_from_cache
from torch import nn

from proveout.capture import corpora_folder, discover, load, read_labels, resolve, watch
from proveout.capture.child import Deadline, _raise_deadline
from proveout.capture.running import explain, print_traceback
from proveout.capture.watcher import _Watcher, observe
from proveout.errors import EnvironmentFault, ScriptError, UsageError

Write = Callable[..., Path]

LINEAR = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 8)
model(torch.ones(2, 4))
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a script below a folder of its own."""

    def write(source: str, name: str = "script.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write


def names(script: Path, script_args: str = "") -> list[str]:
    found, raised = watch(script, script_args)
    assert raised is None
    return [one.workload.name for one in found]


# Which models a script holds


def test_a_workload_says_what_was_found(write: Write) -> None:
    script = write("# labels: author::me tags::a,b" + LINEAR)
    ((found,), raised) = watch(script, "")
    workload = found.workload
    assert raised is None
    assert (workload.name, workload.class_name, workload.location) == ("script", "Linear", "script.py:5")
    assert (workload.parameters, workload.parameter_bytes, workload.calls) == (40, 160, 1)
    assert [(name, spec.shape, spec.dtype) for name, spec in workload.inputs] == [("0", (2, 4), "float32")]
    assert workload.labels == (("author", ("me",)), ("tags", ("a", "b")))
    assert isinstance(found.module, nn.Linear)
    assert found.args[0].equal(torch.ones(2, 4))


def test_several_models_are_named_by_class_and_number(write: Write) -> None:
    script = write("""
        import torch
        from torch import nn
        nn.Bilinear(3, 3, 3)(torch.ones(1, 3), torch.ones(1, 3))
        for width in (3, 4):
            nn.Linear(3, width)(torch.ones(1, 3))
        """)
    assert names(script) == ["script::Bilinear", "script::Linear", "script::Linear#2"]


def test_models_of_one_architecture_are_one_workload_and_its_calls_add_up(write: Write) -> None:
    script = write("""
        import torch
        from torch import nn
        models = [nn.Linear(3, 3) for _ in range(3)]
        for module in models:
            module(torch.ones(1, 3))
        """)
    ((found,), _) = watch(script)
    assert found.workload.calls == 3
    assert found.workload.seconds > 0


def test_each_new_input_shape_is_a_workload_and_repeats_are_counted(write: Write) -> None:
    script = write("""
        import torch
        model = torch.nn.Linear(8, 8)
        for rows in (1, 2, 2, 2, 4):
            model(torch.ones(rows, 8))
        model.double()(torch.ones(4, 8).double())
        """)
    found, _ = watch(script)
    calls = {one.workload.name: one.workload.calls for one in found}
    assert list(calls.values()) == [1, 3, 1, 1]
    assert list(calls)[:3] == ["script::Linear@1x8", "script::Linear@2x8", "script::Linear@4x8"]
    assert len({one.workload.selector for one in found}) == 4


def test_variants_are_named_by_the_inputs_that_differ(write: Write) -> None:
    script = write("""
        import torch
        class Add(torch.nn.Module):
            def forward(self, x, mask=None, scale=None):
                return x
        add, x = Add(), torch.ones(1, 8)
        add(x, mask=torch.ones(1, 5))
        add(x, mask=torch.ones(1, 6), scale=torch.tensor(1.0))
        add(x, mask=torch.ones(1, 6), scale=torch.tensor(1))
        add(x)
        """)
    assert names(script) == [
        "script@1x5+none",
        "script@1x6+float32",
        "script@1x6+int64",
        "script@none+none",
    ]


def test_only_root_calls_are_models_wherever_they_are_made(write: Write) -> None:
    script = write("""
        import torch
        from torch import nn
        class Trainer(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
            def run(self, x):
                return self.net(x)
        def main():
            trainer = Trainer()
            return trainer.run(torch.ones(1, 3))
        main()
        """)
    ((found,), _) = watch(script)
    assert (found.workload.class_name, found.workload.location) == ("Sequential", "script.py:7")


def test_inputs_are_flattened_by_path_and_kept_in_their_containers(write: Write) -> None:
    script = write("""
        from collections import namedtuple
        from dataclasses import dataclass
        import torch
        State = namedtuple("State", "h c")
        @dataclass
        class Extra:
            bias: torch.Tensor
        class Net(torch.nn.Module):
            def forward(self, x, state, *, mask=None, extra=None, flag=False):
                return x
        t = torch.ones(2, 2)
        Net()([t, {"y": t}], State(t, t), mask=t.bool(), extra=Extra(t), flag=True)
        """)
    ((found,), _) = watch(script)
    assert [name for name, _ in found.workload.inputs] == ["0.0", "0.1.y", "1.0", "1.1", "mask", "extra.bias"]
    assert type(found.args[1]).__name__ == "State"
    assert found.kwargs["flag"] is True
    assert found.args[0][0] is found.args[1].h, "one tensor given twice stays one tensor"
    assert found.kwargs["extra"].bias is found.args[1].h


def test_inputs_are_as_they_were_before_the_call(write: Write) -> None:
    script = write("""
        import torch
        class Cache:
            def __init__(self):
                self.rows = []
        class Net(torch.nn.Module):
            def forward(self, x, cache):
                x.zero_()
                cache.rows.append(x)
                return x
        x = torch.ones(2, requires_grad=True)
        with torch.inference_mode():
            Net()(x.clone(), Cache())
        """)
    ((found,), raised) = watch(script)
    assert raised is None
    assert found.args[0].equal(torch.ones(2))
    assert not found.args[0].requires_grad
    assert not found.args[0].is_inference()
    assert found.args[1].rows == []


def test_bare_activations_losses_and_parametrisations_are_not_models(write: Write) -> None:
    script = write("""
        import torch
        from torch import nn
        from torch.nn.utils import parametrizations, parametrize
        x = torch.ones(2, 2)
        nn.ReLU()(x)
        nn.Sequential(nn.ReLU(), nn.Flatten())(x)
        nn.CrossEntropyLoss()(x, torch.tensor([0, 1]))
        class Symmetric(nn.Module):
            def forward(self, w):
                return w + w.T
        layer = nn.Linear(2, 2)
        parametrize.register_parametrization(layer, "weight", Symmetric())
        layer.weight
        parametrizations.weight_norm(nn.Linear(2, 2)).weight
        """)
    assert names(script) == []


def test_a_users_own_module_is_a_model_without_parameters_too(write: Write) -> None:
    script = write("""
        import torch
        from torch import nn
        class Double(nn.Module):
            def forward(self, x):
                return x * 2
        Double()(torch.ones(1))
        nn.Sequential(Double(), nn.ReLU())(torch.ones(1))
        """)
    assert names(script) == ["script::Double", "script::Sequential"]


def test_calls_while_tracing_and_simulated_calls_are_not_models(write: Write) -> None:
    script = write("""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        x, model = torch.ones(1, 2), torch.nn.Linear(2, 2)
        torch.jit.trace(model, x, check_trace=False)
        with FakeTensorMode():
            torch.nn.Linear(2, 2)(torch.ones(1, 2))
        torch.vmap(model)(x)
        """)
    assert names(script) == []


def test_training_steps_are_left_out_where_the_model_also_ran_in_eval_mode(write: Write) -> None:
    script = write("""
        import sys, torch
        model = torch.nn.Linear(2, 2)
        for _ in range(3):
            model(torch.ones(8, 2)).sum().backward()
        if "eval" in sys.argv:
            model.eval()
            model(torch.ones(1, 2))
        """)
    shapes = {args: [f.args[0].shape for f in watch(script, args)[0]] for args in ("eval", "")}
    assert shapes == {"eval": [(1, 2)], "": [(8, 2)]}


def test_a_compiled_model_is_found_as_the_model_that_was_compiled(write: Write) -> None:
    script = write("""
        import torch
        class Inner(torch.nn.Module):
            def forward(self, x):
                return x * SCALE
        SCALE = 3
        graphs = []
        def backend(graph, inputs):
            graphs.append(graph)
            return graph.forward
        model = torch.nn.Sequential(Inner(), Inner())
        torch.compile(model, backend=backend, fullgraph=True)(torch.ones(2))
        @torch.compile(backend=backend, fullgraph=True)
        def add_one(x):
            return model(x) + 1
        add_one(torch.ones(2))
        assert len(graphs) == 2
        """)
    ((found,), raised) = watch(script)
    assert raised is None
    assert found.workload.class_name == "Sequential"


def test_a_found_model_can_be_compiled_although_its_script_has_ended(write: Write) -> None:
    script = write("""
        import torch
        FACTOR = 3
        class Scale(torch.nn.Module):
            def forward(self, x):
                return x * FACTOR
        model = torch.nn.Sequential(Scale(), Scale())
        model(torch.ones(2))
        """)
    ((found,), _) = watch(script)
    # Dynamo guards FACTOR in the module that `forward` names as its own, so that module must still be there.
    compiled = torch.compile(found.module, backend="eager", fullgraph=True)
    assert compiled(*found.args).equal(torch.full((2,), 9.0))


def test_dynamo_never_takes_the_watching_call_for_torchs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.utils as dynamo

    with _Watcher(tmp_path / "script.py", keep=()).watching():  # as if a script were the first to import dynamo
        monkeypatch.setattr(dynamo, "unpatched_nn_module_call", nn.Module.__call__)
    assert dynamo.unpatched_nn_module_call is nn.Module.__call__


def test_a_model_freed_and_another_in_its_place_are_two_models(write: Write) -> None:
    script = write("""
        import torch
        for width in range(1, 21):
            torch.nn.Linear(3, width)(torch.ones(1, 3))
        """)
    workloads, found, _ = observe(script, keep=())
    assert found == []
    assert [w.parameters for w in workloads] == [4 * width for width in range(1, 21)]


def test_lazy_modules_are_known_by_the_shapes_they_got(write: Write) -> None:
    lazy = write("import torch\ntorch.nn.LazyLinear(8)(torch.ones(2, 4))")
    ((found,), raised) = watch(lazy)
    assert raised is None
    assert found.workload.parameters == 40


def test_models_in_two_threads_are_both_found(write: Write) -> None:
    script = write("""
        import threading, torch
        meeting = threading.Barrier(2)
        class Wait(torch.nn.Module):
            def __init__(self, width):
                super().__init__()
                self.fc = torch.nn.Linear(1, width)
            def forward(self, x):
                meeting.wait(10)
                return self.fc(x)
        threads = [threading.Thread(target=Wait(w), args=(torch.ones(1, 1),)) for w in (1, 2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        """)
    assert names(script) == ["script::Wait", "script::Wait#2"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ThreadPoolExecutor", "ProcessPoolExecutor"])
def test_a_pool_left_open_holds_nothing_up_and_its_work_is_done(write: Write, tmp_path: Path, kind: str) -> None:
    """As Inductor's: `python script.py` ends, and so does watching it, after the work that the pool was given."""
    write("import pathlib, time\ndef work(path):\n    time.sleep(0.3)\n    pathlib.Path(path).touch()\n", "beside.py")
    script = write(f"""
        import concurrent.futures, torch
        from beside import work
        pool = concurrent.futures.{kind}(2)
        futures = [pool.submit(work, r"{tmp_path}/" + str(i)) for i in range(3)]
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    """)
    watching = "import sys, pathlib, proveout.capture as c; print(len(c.watch(pathlib.Path(sys.argv[1]), '')[0]))"
    command = [sys.executable, "-c", watching, str(script)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert found.stdout.split() == ["1"], found.stderr
    assert all((tmp_path / str(i)).exists() for i in range(3))


def test_the_location_is_the_users_line_not_the_librarys(write: Write) -> None:
    script = write("""
        import torch
        from torch.utils.checkpoint import checkpoint
        model = torch.nn.Linear(2, 2)
        checkpoint(model, torch.ones(1, 2), use_reentrant=False)
        """)
    ((found,), _) = watch(script)
    assert found.workload.location == "script.py:4"


def test_the_location_is_where_the_model_was_built_not_a_line_of_its_own_class(write: Write) -> None:
    write("""
        import torch
        class Base(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(2, 2)
        class Net(Base):
            def __init__(self):
                super().__init__()
            def forward(self, x):
                return self.fc(x)
        def make():
            return Net()
        """, "parts.py")  # fmt: skip
    script = write("""
        import copy, torch
        from parts import Net, make
        models = [Net(), make()]
        models.append(copy.deepcopy(models[0]).double())
        for model, dtype in zip(models, (torch.float32, torch.float16, torch.float64)):
            model.to(dtype)(torch.ones(1, 2, dtype=dtype))
        """)
    found, raised = watch(script)
    assert raised is None
    places = [one.workload.location for one in found]
    assert places == ["script.py:4", "parts.py:13", "script.py:7"], "a copy was not built: where it was called"


# How a script runs


def test_a_script_runs_as_python_would_run_it(write: Write) -> None:
    write("import torch\nmodel = torch.nn.Linear(4, 4)", "nearby_model.py")
    script = write("""
        import argparse, os, sys, torch
        from nearby_model import model
        parser = argparse.ArgumentParser()
        parser.add_argument("--rows", type=int)
        parser.add_argument("words", nargs="*")
        def main(rows: int):
            model(torch.ones(rows, 4))
        if __name__ == "__main__":
            arguments = parser.parse_args()
            assert arguments.words == ["two words"] and sys.argv[0] == __file__
            assert sys.modules["__main__"].parser is parser
            assert main.__annotations__ == {"rows": int}, "no `from __future__` but the script's own"
            os.chdir("/")
            sys.path.append("elsewhere")
            main(arguments.rows)
        """)
    before = (sys.argv, list(sys.path), sys.modules["__main__"], os.getcwd(), nn.Module.__call__)
    ((found,), raised) = watch(script, "--rows 3 'two words'")
    assert raised is None
    assert found.args[0].shape == (3, 4)
    assert found.workload.script_args == "--rows 3 'two words'"
    assert (sys.argv, list(sys.path), sys.modules["__main__"], os.getcwd(), nn.Module.__call__) == before


def test_nothing_stays_patched_after_an_exception(write: Write) -> None:
    before = nn.Module.__call__
    _, raised = watch(write("import torch\ntorch.nn.Linear(2, 2)(torch.ones(3))"))
    assert isinstance(raised, RuntimeError)
    assert nn.Module.__call__ is before


@pytest.mark.slow
def test_outputs_and_random_state_are_the_same_bits_as_without_watching(write: Write, tmp_path: Path) -> None:
    script = write("""
        import sys, torch
        from torch import nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.BatchNorm1d(8))
        x = torch.randn(4, 8)
        outputs = [model(x) for _ in range(3)]
        outputs[0].sum().backward()
        result = (*outputs, model[0].weight.grad, model[2].running_mean, torch.get_rng_state(), torch.randn(3))
        torch.save([t.detach() for t in result], sys.argv[1])
        """)
    subprocess.run([sys.executable, script, tmp_path / "alone.pt"], check=True)
    _, raised = watch(script, f"'{tmp_path / 'watched.pt'}'")
    assert raised is None
    alone, watched = (torch.load(tmp_path / name) for name in ("alone.pt", "watched.pt"))
    assert len(alone) == 7
    assert all(a.equal(b) for a, b in zip(alone, watched, strict=True))


def test_a_scripts_own_modes_see_its_own_operations_only(write: Write) -> None:
    script = write("""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        class Log(TorchDispatchMode):
            seen = []
            def __torch_dispatch__(self, op, types, args=(), kwargs=None):
                self.seen.append(str(op))
                return op(*args, **(kwargs or {}))
        model, x = torch.nn.Linear(2, 2).requires_grad_(False), torch.ones(1, 2)
        with Log():
            model(x)
        assert Log.seen == ["aten.t.default", "aten.addmm.default"], Log.seen
        """)
    assert names(script) == ["script"]


def test_scripts_written_for_mlagility_run_unchanged(write: Write) -> None:
    script = write("""
        # labels: test_group::mlagility name::net author::me
        from mlagility.parser import parse
        from mlagility.common.labels import load_from_cache
        import mlagility.common.labels
        import torch
        batch_size, width = parse(["batch_size", "width"])
        assert mlagility.common.labels.load_from_cache is load_from_cache
        model = torch.nn.Linear(width, 2)
        inputs = {"input": torch.ones([batch_size, width])}
        model(**inputs)
        """)
    ((found,), raised) = watch(script, "--batch_size 8")
    assert raised is None
    assert found.kwargs["input"].shape == (8, 224)
    assert not [name for name in sys.modules if name.startswith("mlagility")]


def test_a_script_can_say_how_good_a_model_is(write: Write) -> None:
    script = write(LINEAR + "OFFSET = 1\ndef evaluate_on(model):\n    return model.weight.numel() + OFFSET\n")
    ((found,), _) = watch(script)
    assert found.evaluate is not None
    assert found.evaluate(found.module) == 33


# The selector


def test_a_selector_depends_on_architecture_and_shapes_not_on_weights(write: Write) -> None:
    def selector(seed: int = 0, width: int = 8, rows: int = 2, eps: float = 1e-5, dtype: str = "float32") -> str:
        script = write(f"""
            import torch
            from torch import nn
            torch.manual_seed({seed})
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc, self.norm = nn.Linear(4, {width}), nn.LayerNorm({width}, eps={eps})
                def extra_repr(self):
                    return repr(object())
                def forward(self, x):
                    return self.norm(self.fc(x))
            Net().to(torch.{dtype})(torch.ones({rows}, 4, dtype=torch.{dtype}))
            """)
        ((found,), raised) = watch(script)
        assert raised is None
        return found.workload.selector

    base = selector()
    assert len(base) == 12
    assert selector(seed=1) == base
    others = [selector(width=9), selector(rows=3), selector(eps=1e-6), selector(dtype="float64")]
    assert len({base, *others}) == 5


@pytest.mark.slow
def test_two_processes_and_this_one_agree_on_selectors(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    script = corpora_folder() / "selftest" / "two_models.py"
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    first = discover(script)
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    second = discover(script)
    here, _ = watch(script)
    assert first.error == second.error == ""
    selectors = [[w.selector for w in workloads] for workloads in (first.workloads, second.workloads)]
    assert selectors == [[f.workload.selector for f in here]] * 2
    assert len(set(selectors[0])) == 2


def test_load_brings_a_workload_back_to_life(write: Write) -> None:
    script = corpora_folder() / "selftest" / "dynamic_shapes.py"
    found, _ = watch(script, "--batch_size 3")
    again = load(found[1].workload)
    assert again.workload.name == "dynamic_shapes@6x64"
    assert again.args[0].equal(found[1].args[0])
    assert again.module(*again.args).equal(found[1].module(*found[1].args))


def test_load_says_that_a_script_changed(write: Write) -> None:
    ((found,), _) = watch(write(LINEAR))
    write(LINEAR.replace("nn.Linear(4, 8)", "nn.Linear(4, 9)"))
    with pytest.raises(ScriptError, match=r"script.py no longer holds .* Run: proveout discover"):
        load(found.workload)
    write("raise OSError('gone')")
    with pytest.raises(ScriptError, match=r"raised OSError at script.py:1 before any model had run: gone"):
        load(found.workload)


# How failures are told


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (LINEAR + "1 / 0", "script.py raised ZeroDivisionError at script.py:7 after its model ran: division by zero"),
        (LINEAR + "import sys; sys.exit(3)", ""),
        ("import nowhere", "script.py raised ModuleNotFoundError at script.py:1 before any model had run: No mod"),
        ("x = 1\nx = = 2", "script.py:2 is not valid Python: invalid syntax: x = = 2"),
        ("x = 1\0", "script.py is not valid Python: source code string cannot contain null bytes"),
        ("raise SystemExit(3)", "script.py exited with 3 before any model had run. Its log says more."),
        ("raise SystemExit", "script.py ran no model. A script must build a torch.nn.Module and call it"),
        ("def f(): raise OSError('a\\n  b')\nf()", "script.py raised OSError at script.py:1 before any model had run"),
    ],
    ids=["after", "exit after", "before", "syntax", "null bytes", "exit before", "no model", "inside a function"],
)  # fmt: skip
def test_a_failure_is_one_sentence(write: Write, source: str, sentence: str) -> None:
    script = write(source)
    found, raised = watch(script)
    told = explain(script, raised, ran=bool(found))
    assert told.startswith(sentence) if sentence else told == ""


@pytest.mark.slow
def test_a_script_that_ends_itself_is_told_with_its_last_words(write: Write) -> None:
    """As argparse does for an argument that it does not know."""
    found = discover(write("import sys; print('usage'); print('error: no --colour', file=sys.stderr); sys.exit(2)"))
    expected = "script.py exited with 2 before any model had run. It said: error: no --colour. "
    expected += "Pass a script its arguments with --script-args '…'."
    assert found.error == expected


@pytest.mark.slow
def test_discovery_yields_the_model_the_error_and_the_log(write: Write) -> None:
    script = write("# labels: author::me\nprint('hello from the script')" + LINEAR + "raise ValueError('too late')")
    found = discover(script)
    assert [w.name for w in found.workloads] == ["script"]
    assert found.error == "script.py raised ValueError at script.py:8 after its model ran: too late"
    assert found.log.splitlines()[:2] == ["hello from the script", "Traceback (most recent call last):"]
    assert found.labels == (("author", ("me",)),)
    assert found.seconds > 0


def test_the_traceback_shows_nothing_of_ours(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    _, raised = watch(write("import torch\ntry:\n    torch.nn.Linear(2, 2)(torch.ones(3))\nfinally:\n    1 / 0"))
    assert raised is not None
    print_traceback(raised)
    printed = capsys.readouterr().err
    assert printed.count("Traceback (most recent call last):") == 2
    assert "script.py" in printed
    assert "capture" not in printed


def test_discovery_tells_a_deadline(write: Write) -> None:
    found = discover(write("import time; time.sleep(60)"), timeout_s=1)
    assert found.workloads == ()
    assert "script.py ran past its limit and was stopped" in found.error
    assert found.error.endswith("Give it more time: --timeout")


def test_models_are_told_where_a_thread_of_the_script_never_ends(write: Write) -> None:
    script = write(LINEAR + "\nimport threading\nend = threading.Event()\nthreading.Thread(target=end.wait).start()\n")
    before = signal.signal(signal.SIGALRM, _raise_deadline)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        workloads, _, raised = observe(script)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        next(m for m in sys.modules.values() if getattr(m, "__file__", "") == str(script)).end.set()
    assert len(workloads) == 1
    assert isinstance(raised, Deadline)


@pytest.mark.slow
def test_discovery_tells_a_crash(write: Write) -> None:
    found = discover(write("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"))
    assert found.error.startswith("script.py was killed by SIGSEGV, and none of its models could be read.")


def test_discovery_refuses_what_cannot_be_run(write: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        discover(tmp_path / "missing.py")
    with pytest.raises(UsageError, match="Close the quotation"):
        discover(write(LINEAR), script_args="--name 'open")


def test_capture_is_imported_without_torch() -> None:
    code = "import sys, proveout.capture; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Labels


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ("# labels: author::google tags::daily,monthly", (("author", ("google",)), ("tags", ("daily", "monthly")))),
        ("# labels:", ()),
        ("# a comment", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_labels_are_read_from_the_first_line(write: Write, line: str, labels: object) -> None:
    assert read_labels(write(f"{line}\nraise SystemExit('never run')")) == labels


@pytest.mark.parametrize("word", ["author", "author:google", "::google", "author::", "tags::a,,b", "a::b::c"])
def test_a_malformed_label_is_refused_with_the_form(write: Write, word: str) -> None:
    with pytest.raises(UsageError, match=rf"script.py:1: the label '{word}' is malformed. Write key::value"):
        read_labels(write(f"# labels: name::x {word}\n"))


def test_labels_come_back_from_the_cache(tmp_path: Path) -> None:
    labels = [["author", ["me"]], ["tags", ["a", "b"]]]
    record = {"job": {"workload": {"name": "linear", "labels": labels}}}
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "ab12.json").write_text(json.dumps(record))
    (tmp_path / "machine" / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text("[]")
    assert load_from_cache(str(tmp_path), "linear") == {"author": ["me"], "tags": ["a", "b"]}
    with pytest.raises(UsageError, match=r"holds no Record named 'linea' among 1\. Near: linear\."):
        load_from_cache(tmp_path, "linea")
    with pytest.raises(UsageError, match="is not a folder"):
        load_from_cache(tmp_path / "nowhere", "linear")


# Which scripts are meant


@pytest.fixture
def models(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a few scripts."""
    for name in ("a.py", "b.py", "deep/c.py", "deep/_private.py", "deep/.venv/x.py", "deeper/still/c.py"):
        write("", f"models/{name}")
    write("models/a.py  # the first\n\ndeep/c.py::0123456789ab\n", "models/list.txt")
    write("list.txt", "models/circle.txt")
    write("# nothing", "models/none.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "models"


def scripts(*names: str, search_dirs: tuple[str, ...] = (), all: bool = False) -> list[str]:
    return [str(path.relative_to(Path.cwd() / "models")) for path, _ in resolve(names, search_dirs, all)]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["models/b.py", "models/a.py", "models/b.py"], ["a.py", "b.py"]),
        (["models/deep"], ["deep/c.py"]),
        (["models"], ["a.py", "b.py", "deep/c.py", "deeper/still/c.py"]),
        (["models/?.py"], ["a.py", "b.py"]),
        (["models/**/c.py"], ["deep/c.py", "deeper/still/c.py"]),
        (["models/deep*"], ["deep/c.py", "deeper/still/c.py"]),
        (["models/deep/*.py"], ["deep/c.py"]),
        (["models/list.txt"], ["a.py", "deep/c.py"]),
    ],
)
def test_files_folders_globs_and_lists_are_scripts(models: Path, given: list[str], meant: list[str]) -> None:
    assert scripts(*given) == meant


def test_names_are_looked_up_below_the_search_dirs(models: Path) -> None:
    assert scripts("b.py", search_dirs=("models",)) == ["b.py"]
    assert scripts("c.py", search_dirs=("models/deeper",)) == ["deeper/still/c.py"]
    assert scripts("deep/c.py", search_dirs=("models",)) == ["deep/c.py"]
    assert scripts(search_dirs=("models/deep",), all=True) == ["deep/c.py"]
    with pytest.raises(UsageError, match=r"'c.py' means 2 scripts: .* Name one by its path"):
        resolve(["c.py"], ["models"])


def test_a_corpus_is_a_search_dir_from_anywhere(models: Path) -> None:
    ((path, selectors),) = resolve(["linear.py"], ["selftest"])
    assert path == corpora_folder() / "selftest" / "linear.py"
    assert selectors == ()
    everything = [path.name for path, _ in resolve([], ["selftest"], all=True)]
    assert everything == sorted(everything)
    assert len(everything) == 8
    assert {"selftest"} <= {path.parent.name for path, _ in resolve([], all=True)}


def test_an_installed_package_brings_its_corpora_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "python3" / "proveout"
    monkeypatch.setattr("proveout.capture.scripts._PACKAGE", package)
    with pytest.raises(EnvironmentFault, match="the corpora are missing; looked in"):
        corpora_folder()
    (package / "corpora" / "tiny").mkdir(parents=True)
    (package / "corpora" / "tiny" / "net.py").touch()
    assert resolve(["net.py"], ["tiny"]) == [(package / "corpora" / "tiny" / "net.py", ())]


def test_hashes_pick_models_and_the_whole_script_outweighs_them(models: Path) -> None:
    one, two = "0123456789ab", "fedcba987654"
    ((_, selectors),) = resolve([f"models/a.py::{two},{one}", f"models/a.py::{one}"])
    assert selectors == (one, two)
    ((_, selectors),) = resolve([f"models/a.py::{one}", "models/a.py", f"models/a.py::{two}"])
    assert selectors == ()
    assert resolve(["models/list.txt"])[1][1] == (one,)
    with pytest.raises(
        UsageError,
        match=r"'xyz' is not a hash of 12 hex digits, nor of MLAgility's 8. Run: proveout discover models/a.py",
    ):
        resolve(["models/a.py::xyz"])


@pytest.mark.parametrize(
    ("given", "search_dirs", "sentence"),
    [
        (["liner.py"], ["selftest"], r"no script 'liner.py'; looked in .*, .*selftest\. Near: selftest/linear.py"),
        (["linear.py"], [], r"no script 'linear.py'; looked in .* Near: selftest/linear.py.* Add: --search-dir self"),
        (["models/z.py"], [], r"no script 'models/z.py'; looked in .* Name a script, a folder, a glob or a list"),
        (["models/*.ipynb"], [], r"no script 'models/\*.ipynb'"),
        (["models/empty"], [], r"holds no scripts"),
        (["models/none.txt"], [], r"none.txt lists no scripts. Write one name a line"),
        (["models/circle.txt"], [], r"list.txt is not a Python script"),
        (["models/notes.md"], [], r"is not a Python script"),
        ([], ["selftst"], r"unknown search dir .* 'selftst'; valid: .*Did you mean 'selftest'"),
        ([], [], r"no script was named"),
    ],
)  # fmt: skip
def test_what_is_missing_is_told_with_what_comes_near(
    models: Path, given: list[str], search_dirs: list[str], sentence: str
) -> None:
    (models / "empty").mkdir()
    (models / "notes.md").write_text("")
    with pytest.raises(UsageError, match=sentence):
        resolve(given, search_dirs)


# The selftest corpus

SELFTEST = {
    "attention.py": ["attention"],
    "conv.py": ["conv"],
    "digits.py": ["digits"],
    "dynamic_shapes.py": ["dynamic_shapes@2x64", "dynamic_shapes@4x64", "dynamic_shapes@8x64"],
    "linear.py": ["linear"],
    "two_layer.py": ["two_layer"],
    "two_models.py": ["two_models::Encoder", "two_models::Decoder"],
    "broken.py": [],
}


@pytest.mark.parametrize("name", SELFTEST)
def test_a_selftest_script_holds_its_models_and_labels(name: str) -> None:
    script = corpora_folder() / "selftest" / name
    labels = dict(read_labels(script))
    assert labels["name"] == (script.stem,)
    assert labels["test_group"] == ("selftest",)
    assert script.read_text().splitlines()[1].startswith('"""')
    found, raised = watch(script, "--batch_size 2")
    assert [one.workload.name for one in found] == SELFTEST[name]
    assert (labels.get("expect") == ("fail",)) == (raised is not None) == (name == "broken.py")
    assert not any(one.module.training for one in found)


def test_digits_are_read_well() -> None:
    ((found,), _) = watch(corpora_folder() / "selftest" / "digits.py")
    assert found.evaluate is not None
    assert found.evaluate(found.module) > 90


@pytest.mark.slow
def test_a_selftest_script_runs_alone() -> None:
    script = corpora_folder() / "selftest" / "linear.py"
    subprocess.run([sys.executable, script, "--batch_size", "8"], check=True)
    refused = subprocess.run([sys.executable, script, "--size", "8"], check=False, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "unrecognized argument --size" in refused.stderr


def test_one_script_that_is_not_python_is_told_before_anything_starts(tmp_path):
    (tmp_path / "bad.py").write_text("import torch\nx = (\n")
    (tmp_path / "good.py").write_text("import torch\n")
    with pytest.raises(UsageError, match=r"bad\.py:2 is not valid Python: '\(' was never closed: x = \("):
        resolve([str(tmp_path / "bad.py")], [])
    assert len(resolve([str(tmp_path)], [])) == 2  # among others it is one failure, and the others run


def test_names_that_are_not_near_are_not_suggested():
    with pytest.raises(UsageError) as error:
        resolve(["linaer.py"], [])
    assert "Near: selftest/linear.py." in str(error.value)
