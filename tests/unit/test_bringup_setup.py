"""What a bring-up writes of a model's setup: weights are moved as torch's tensors, to the same numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proveout.bringup.code import GraphSource, _setup
from proveout.bringup.setup import simplified
from proveout.bringup.tree import Visit
from proveout.program import DEALLOCATE, Name, Program, Ref, Step

TILE, ROWS, BF16 = Name("ttnn.TILE_LAYOUT"), Name("ttnn.ROW_MAJOR_LAYOUT"), Name("ttnn.bfloat16")


def send(source: str, out: str, dtype: Name = BF16, layout: Name = TILE) -> Step:
    return Step("ttnn.from_torch", (("tensor", Ref(source)), ("dtype", dtype), ("layout", layout)), (out,))


def free(name: str) -> Step:
    return Step(DEALLOCATE, (("tensor", Ref(name)),), ())


def program(*setup: Step, reads: str = "y") -> Program:
    body = (Step("ttnn.relu", (("input_tensor", Ref(reads)),), ("z",)),)
    return Program(
        "p", "ttnn", weights=("w",), inputs=(), setup=setup, body=body, outputs=(Ref("z"),), specs={}, constants=()
    )


PERMUTED = Step("ttnn.permute", (("input_tensor", Ref("a")), ("dims", (1, 0))), ("y",))


def test_a_weight_is_turned_before_it_is_sent():
    first, then = simplified(program(send("w", "a"), PERMUTED, free("a"))).setup
    assert (first.kernel, first.attr("self"), first.attr("dims")) == ("aten.permute.default", Ref("w"), (1, 0))
    assert (then.kernel, then.attr("tensor"), then.outputs) == ("ttnn.from_torch", Ref(first.outputs[0]), ("y",))


def test_a_bias_that_is_taken_back_and_sent_again_is_sent_once():
    shaped = Step("ttnn.reshape", (("input_tensor", Ref("a")), ("shape", (1, 1, 1, 4))), ("b",))
    taken = Step("ttnn.to_torch", (("tensor", Ref("b")), ("dtype", Name("torch.float32"))), ("c",))
    steps = send("w", "a"), shaped, free("a"), taken, free("b"), send("c", "y", layout=ROWS)
    first, then = simplified(program(*steps)).setup
    assert (first.kernel, first.attr("shape")) == ("aten.reshape.default", (1, 1, 1, 4))
    assert (then.attr("tensor"), then.attr("layout"), then.outputs) == (Ref(first.outputs[0]), ROWS, ("y",))


def test_a_layout_is_chosen_where_it_is_sent():
    rows = Step("ttnn.to_layout", (("tensor", Ref("a")), ("layout", ROWS)), ("y",))
    (sent,) = simplified(program(send("w", "a"), rows, free("a"))).setup
    assert (sent.attr("tensor"), sent.attr("layout"), sent.outputs) == (Ref("w"), ROWS, ("y",))


@pytest.mark.parametrize(
    "steps",
    [
        (send("w", "a", Name("ttnn.bfloat8_b")), PERMUTED),
        (send("w", "a"), PERMUTED, Step("ttnn.relu", (("input_tensor", Ref("a")),), ("k",))),
        (send("w", "a"), Step("ttnn.permute", (*PERMUTED.attrs, ("memory_config", Name("ttnn.L1"))), ("y",))),
        (send("w", "a"), Step("ttnn.typecast", (("input_tensor", Ref("a")), ("dtype", Name("ttnn.float32"))), ("y",))),
    ],
    ids=["numbers of a block share an exponent", "read twice", "placed", "another format"],
)
def test_what_would_change_a_number_or_another_reader_stays(steps):
    assert simplified(program(*steps)).setup == steps


def test_what_the_body_reads_stays_too():
    steps = send("w", "a"), PERMUTED
    assert simplified(program(*steps, reads="a")).setup == steps


def test_what_is_joined_later_is_called_as_torch_calls_it():
    turned = [
        Step("ttnn.permute", (("input_tensor", Ref(a)), ("dims", (1, 0))), (y,)) for a, y in (("a", "s"), ("b", "t"))
    ]
    joined = Step("ttnn.concat", (("tensors", (Ref("s"), Ref("t"))), ("dim", 1)), ("y",))
    steps = send("w", "a"), turned[0], send("v", "b"), turned[1], joined
    named = {"w": "gate.weight", "v": "up.weight"}
    graph = GraphSource(simplified(replace(program(*steps), weights=("w", "v"))), named, {}, "Net")
    lines = _setup(graph, Visit("", "model"), {"y": "gate_up_weight"})
    assert lines[0].startswith("gate_weight = ttnn.from_torch(tensor=tensors['gate.weight'].T")
    assert lines[-1].startswith("self.gate_up_weight = ttnn.concat(tensors=[gate_weight, up_weight]")
