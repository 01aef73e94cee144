"""PyTorch's own operator samples through our compiler: `python tests/ops/opinfo.py --shard 0/2 -o results.jsonl`.

Each sample is traced without Dynamo (functionalised, our decompositions), lowered for the embedded chip under precision
`model`, run, and compared with eager under PyTorch's own tolerances. One JSON line a sample; a second run goes on
where the first one stopped.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

from proveout.compiler.decompositions import decompositions, kept_whole
from proveout.devices.registry import find
from proveout.devices.sim import Sim
from proveout.engine.graph import GraphFunction
from proveout.types import Coverage, Settings

# PyTorch asks at each sample which of its own tests runs, and `inspect.stack` looks through every module for that.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int64": torch.int64, "bool": torch.bool}
UNINITIALISED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
"""What they give is whatever memory held: nothing to compare."""
SEED = 42
"""The one that OpInfo's own wrappers of random operators set."""
SETTINGS = Settings(precision="model", verify=True)
INFO = find("sim")
SIM = Sim("n150")


@dataclass(frozen=True)
class Outcome:
    """What became of one sample."""

    op: str
    dtype: str
    index: int
    state: str
    """device (all of it), mixed, host (all of it), eager (the graph does not trace), wrong, crash; through Dynamo
    `right` for the first three"""
    reason: str = ""
    aten: tuple[str, ...] = ()


def names() -> list[str]:
    return [_name(op) for op in op_db]


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def dtypes_of(name: str) -> list[str]:
    """Those of ours that an operator takes; none where it gives whatever memory held."""
    op = next(o for o in op_db if _name(o) == name)
    return [] if name in UNINITIALISED else [d for d, dtype in DTYPES.items() if dtype in op.supported_dtypes("cpu")]


def run_op(name: str, dtype: str, limit: int | None = None) -> Iterator[Outcome]:
    """All samples of one operator in one dtype; an operator that does not take the dtype has none."""
    if dtype not in dtypes_of(name):
        return
    op = next(o for o in op_db if _name(o) == name)
    torch.manual_seed(SEED)
    samples = op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False)
    for index, sample in enumerate(itertools.islice(samples, limit)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield run_sample(op, name, dtype, index, sample)


def run_compiled(name: str, dtype: str) -> Outcome:
    """The first sample that eager takes, the user's way: through Dynamo and `torch.compile(backend="proveout")`."""
    op = next(o for o in op_db if _name(o) == name)
    torch.manual_seed(SEED)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, sample in enumerate(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False)):
            call, tensors = _call(op, sample)
            try:
                torch.manual_seed(SEED)
                wanted = call(*[t.clone() for t in tensors])
            except Exception:
                continue
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            compiled = torch.compile(call, backend="proveout", options={"settings": {"verify": True}})
            try:
                torch.manual_seed(SEED)
                found = compiled(*[t.clone() for t in tensors])
            except Exception as error:
                return Outcome(name, dtype, index, "crash", f"{type(error).__name__}: {error}"[:300])
            wrong = _difference(tree_flatten(found)[0], tree_flatten(wanted)[0])
            captured = torch._dynamo.utils.counters["stats"]["unique_graphs"]
            return Outcome(name, dtype, index, "wrong" if wrong else "right" if captured else "eager", wrong[:300])
    return Outcome(name, dtype, -1, "eager", "eager takes none of the samples")


def run_sample(op: Any, name: str, dtype: str, index: int, sample: Any) -> Outcome:
    def outcome(state: str, reason: str = "", aten: tuple[str, ...] = ()) -> Outcome:
        return Outcome(name, dtype, index, state, " ".join(reason.split())[:300], aten)

    whole, tensors = _call(op, sample)
    graphs: list[torch.fx.GraphModule] = []
    compiled: list[Any] = []

    def call(*given: torch.Tensor) -> Any:
        return tuple(tree_flatten(whole(*given))[0])

    def lower(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(gm)
        function = GraphFunction(gm, frozenset(), SIM, INFO, SETTINGS, "opinfo")
        function.on_compiled = compiled.append
        with _disable_current_modes():
            function.prepare()
        return make_boxed_func(function)

    with torch.no_grad():
        try:
            torch.manual_seed(SEED)
            wanted = call(*[t.clone() for t in tensors])
        except Exception as error:
            return outcome("eager", f"eager itself raises {type(error).__name__}")
        try:
            traced = aot_function(call, fw_compiler=lower, decompositions=decompositions())
            torch.manual_seed(SEED)
            with kept_whole():
                found = traced(*[t.clone() for t in tensors])
        except Exception as error:
            if not graphs:
                return outcome("eager", f"does not trace: {type(error).__name__}: {error}")
            return outcome("crash", f"{type(error).__name__}: {error}")
    coverage = functools.reduce(lambda a, b: a + b, (c.coverage for c in compiled), Coverage())
    aten = tuple(sorted({o.aten for o in coverage.ops}))
    wrong = _difference(found, wanted)
    if wrong:
        return outcome("wrong", _whose_fault(call, tensors, wanted) or wrong, aten)
    host = coverage.on_host
    state = "device" if not host else "host" if len(host) == coverage.before else "mixed"
    return outcome(state, f"{host[0].aten}: {host[0].reason}" if host else "", aten)


def _call(op: Any, sample: Any) -> tuple[Any, list[torch.Tensor]]:
    """The operator as a function of the sample's tensors alone, and these."""
    leaves, tree = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))

    def call(*given: torch.Tensor) -> Any:
        rest = iter(given)
        args, kwargs = tree_unflatten([next(rest) if isinstance(v, torch.Tensor) else v for v in leaves], tree)
        return op.op(*args, **kwargs)

    return call, [leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _whose_fault(call: Any, tensors: list[torch.Tensor], wanted: Any) -> str:
    """Whether PyTorch's own decomposition, run in eager, is as far off."""
    with torch.no_grad(), kept_whole():
        nop = aot_function(call, fw_compiler=lambda gm, _: make_boxed_func(gm), decompositions=decompositions())
        torch.manual_seed(SEED)
        theirs = _difference(nop(*[t.clone() for t in tensors]), wanted)
    return f"PyTorch's decomposition: {theirs}" if theirs else ""


def _difference(found: list[Any], wanted: Any) -> str:
    for got, want in zip(found, wanted, strict=True):
        if not isinstance(want, torch.Tensor):
            if got != want and not (isinstance(want, float) and math.isnan(want)):
                return f"{got} instead of {want}"
            continue
        try:
            # PyTorch's own default tolerances for the dtype, as its OpInfo tests use them.
            torch.testing.assert_close(got, want, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return " ".join(str(error).split())
    return ""


def run_all(pairs: Iterable[tuple[str, str]], results: Path) -> list[Outcome]:
    """All samples of these (operator, dtype) pairs; those that the results file holds whole are not run again."""
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {(r["op"], r["dtype"]) for r in rows if "end" in r}
    wanted = list(pairs)
    known = [Outcome(**r) for r in rows if "end" not in r and (r["op"], r["dtype"]) in done]
    outcomes = [o for o in known if (o.op, o.dtype) in set(wanted)]
    with results.open("a") as out:
        for name, dtype in wanted:
            if (name, dtype) in done:
                continue
            found = list(run_op(name, dtype))
            out.writelines(json.dumps(asdict(o)) + "\n" for o in found)
            out.write(json.dumps({"op": name, "dtype": dtype, "end": True}) + "\n")
            out.flush()
            outcomes += found
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", default="0/1", help="this one of how many")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", help="operators whose name contains this")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    shard, shards = map(int, arguments.shard.split("/"))
    pairs = list(itertools.product(names(), DTYPES))[shard::shards]
    run_all([pair for pair in pairs if (arguments.only or "") in pair[0]], arguments.output)


if __name__ == "__main__":
    main()
