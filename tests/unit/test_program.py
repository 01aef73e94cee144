"""The narrow waist: printing, fingerprints, saving and loading, and a verifier that catches each planted fault."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proveout.errors import UsageError
from proveout.kernels.table import constant_tensor, dtype_name, infer
from proveout.program import (
    Constant,
    Construct,
    InvalidProgram,
    Name,
    Program,
    Ref,
    Step,
    map_refs,
    refs,
    verify,
    with_refs,
)
from proveout.types import DRAM, L1, Origin, TensorSpec

quick = settings(deadline=None, max_examples=50)

TORCH = TensorSpec((4, 64), "float32")
DEVICE = TensorSpec((4, 64), "bfloat16", "tile", DRAM)
BF16, TILE, ON_DEVICE = Name("ttnn.bfloat16"), Name("ttnn.TILE_LAYOUT"), Name("device")


def step(kernel, *outputs, reason="", origin=Origin(), **attrs):
    return Step(kernel, tuple(attrs.items()), outputs, origin, reason)


def send(value, out):
    return step("ttnn.from_torch", out, tensor=Ref(value), dtype=BF16, layout=TILE, device=ON_DEVICE)


def fetch(value, out):
    return step("ttnn.to_torch", out, tensor=Ref(value), dtype=Name("torch.float32"))


def free(value):
    return step("ttnn.deallocate", tensor=Ref(value))


ADD = step("ttnn.add", "sum", input_tensor_a=Ref("x.dev"), input_tensor_b=Ref("w.dev"))
HOST = step("aten.sort.default", "values", "order", self=Ref("back"), dim=-1, reason="no row in the op table")

PROGRAM = Program(
    name="add",
    target="ttnn",
    inputs=("x",),
    weights=("w",),
    constants=(),
    outputs=(Ref("values"), None, Ref("order")),
    setup=(send("w", "w.dev"),),
    body=(
        send("x", "x.dev"),
        replace(ADD, origin=Origin("add", "aten.add.Tensor", "block.0", "model.py:7")),
        free("x.dev"),
        fetch("sum", "back"),
        free("sum"),
        HOST,
    ),
    specs={
        "x": TORCH,
        "w": TORCH,
        "w.dev": DEVICE,
        "x.dev": DEVICE,
        "sum": DEVICE,
        "back": TORCH,
        "values": TORCH,
        "order": TensorSpec((4, 64), "int64"),
    },
)


# ---- printing ----------------------------------------------------------------------------------------------------


def test_a_program_prints_as_a_page_that_can_be_read():
    assert str(PROGRAM) == (
        f"program add  target ttnn  {PROGRAM.fingerprint[:12]}\n"
        "  input    %x: f32[4,64] host\n"
        "  weight   %w: f32[4,64] host\n"
        "setup:\n"
        "  %w.dev: bf16[4,64] tile dram = ttnn.from_torch(tensor=%w, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT,"
        " device=device)\n"
        "body:\n"
        "  %x.dev: bf16[4,64] tile dram = ttnn.from_torch(tensor=%x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT,"
        " device=device)\n"
        "  %sum: bf16[4,64] tile dram = ttnn.add(input_tensor_a=%x.dev, input_tensor_b=%w.dev)  # block.0\n"
        "  ttnn.deallocate(tensor=%x.dev)\n"
        "  %back: f32[4,64] host = ttnn.to_torch(tensor=%sum, dtype=torch.float32)\n"
        "  ttnn.deallocate(tensor=%sum)\n"
        "  %values: f32[4,64] host, %order: i64[4,64] host = aten.sort.default(self=%back, dim=-1)"
        "  # host: no row in the op table\n"
        "return (%values, None, %order)"
    )


@pytest.mark.parametrize(
    ("arg", "text"),
    [
        (1, "a=1"),
        (1.5, "a=1.5"),
        (-math.inf, "a=-inf"),
        ("relu", "a='relu'"),
        (Name("ttnn.bfloat16"), "a=ttnn.bfloat16"),
        ((1,), "a=(1,)"),
        ((), "a=()"),
        ((Ref("x"), (None, True)), "a=(%x, (None, True))"),
    ],
)
def test_arguments_print_as_python_writes_them(arg, text):
    assert PROGRAM.format(step("ttnn.relu", a=arg)) == f"ttnn.relu({text})"


# ---- Steps -------------------------------------------------------------------------------------------------------


def test_a_step_knows_what_it_reads_each_value_once_in_order():
    concat = step("ttnn.concat", "y", tensors=(Ref("b"), Ref("a"), Ref("b")), dim=0)
    assert concat.uses == ("b", "a")
    assert concat.attr("dim") == 0
    assert concat.attr("groups", 1) == 1


def test_a_step_is_on_the_host_unless_it_is_ttnns():
    assert HOST.on_host
    assert not ADD.on_host
    assert [s.is_transfer for s in (send("x", "y"), fetch("x", "y"), ADD, HOST)] == [True, True, False, False]
    assert PROGRAM.num_transfers == 2
    assert PROGRAM.steps == PROGRAM.setup + PROGRAM.body


def test_references_are_replaced_at_any_depth():
    arg = (Ref("a"), 1, (Ref("b"), (Ref("a"),)))
    renamed = map_refs(arg, lambda ref: Ref(ref.name.upper()))
    assert renamed == (Ref("A"), 1, (Ref("B"), (Ref("A"),)))
    assert [r.name for r in refs(renamed)] == ["A", "B", "A"]
    assert with_refs(ADD, lambda ref: Ref("z")).uses == ("z",)


def test_a_program_cannot_be_changed():
    with pytest.raises(TypeError):
        PROGRAM.specs["x"] = DEVICE
    with pytest.raises(AttributeError):
        PROGRAM.name = "other"


# ---- fingerprints ------------------------------------------------------------------------------------------------


def renamed(program, change):
    """The same calls with other names for the values."""

    def rename(s):
        s = with_refs(s, lambda ref: Ref(change(ref.name)))
        return replace(s, outputs=tuple(map(change, s.outputs)))

    return replace(
        program,
        inputs=tuple(map(change, program.inputs)),
        weights=tuple(map(change, program.weights)),
        constants=tuple(replace(c, name=change(c.name)) for c in program.constants),
        outputs=tuple(map_refs(o, lambda ref: Ref(change(ref.name))) for o in program.outputs),
        setup=tuple(map(rename, program.setup)),
        body=tuple(map(rename, program.body)),
        specs={change(n): s for n, s in program.specs.items()},
    )


def body_with(**attrs):
    """One Step with these attributes in place of the addition's."""
    return replace(PROGRAM, body=(PROGRAM.body[0], replace(ADD, attrs=(*ADD.attrs, *attrs.items())), *PROGRAM.body[2:]))


def test_names_source_lines_and_the_programs_name_do_not_count():
    elsewhere = tuple(replace(s, origin=Origin("n", "a", "m", "other.py:99")) for s in PROGRAM.body)
    same = [
        replace(PROGRAM, name="another"),
        replace(PROGRAM, body=elsewhere),
        renamed(PROGRAM, lambda n: f"v_{n}"),
        renamed(PROGRAM, lambda n: {"sum": "torch", "back": "float32", "x": "device"}.get(n, n)),
    ]
    assert {p.fingerprint for p in same} == {PROGRAM.fingerprint}
    assert all(p == PROGRAM and hash(p) == hash(PROGRAM) for p in same)


def test_everything_else_counts():
    constant = replace(
        PROGRAM, constants=(Constant("c", b"\0" * 4),), specs={**PROGRAM.specs, "c": TensorSpec((1,), "int32")}
    )
    others = [
        PROGRAM,
        body_with(alpha=1),
        body_with(alpha=1.0),
        body_with(alpha=True),
        body_with(alpha="1"),
        body_with(alpha=Name("1")),
        body_with(alpha=(1,)),
        body_with(alpha=None),
        body_with(alpha=math.inf),
        body_with(alpha=-math.inf),
        body_with(alpha=math.nan),
        body_with(alpha="inf"),
        body_with(alpha=1j),
        body_with(beta=1),
        replace(PROGRAM, target="torch"),
        replace(PROGRAM, setup=(), body=PROGRAM.setup + PROGRAM.body),
        replace(PROGRAM, outputs=PROGRAM.outputs[:1]),
        replace(PROGRAM, outputs=PROGRAM.outputs[::-1]),
        replace(PROGRAM, inputs=("x", "w"), weights=()),
        replace(PROGRAM, specs={**PROGRAM.specs, "sum": replace(DEVICE, memory=L1)}),
        constant,
        replace(constant, constants=(Constant("c", b"\0\0\0\1"),)),
    ]
    assert len({p.fingerprint for p in others}) == len(others)
    assert len(set(others)) == len(others)


def test_the_order_of_steps_counts():
    one, two = send("x", "x.dev"), send("w", "w.dev")
    first, second = (replace(PROGRAM, setup=(), body=(*pair, *PROGRAM.body[1:])) for pair in ((one, two), (two, one)))
    assert first.fingerprint != second.fingerprint


def test_a_value_named_like_an_argument_does_not_hide_the_argument():
    """FX names nodes after their ops: a node `relu` and an activation 'relu' may stand in one Program."""

    def linear(name, activation):
        call = step("ttnn.linear", name, input_tensor_a=Ref("x"), input_tensor_b=Ref("x"), activation=activation)
        return Program("p", "torch", ("x",), (), (), (Ref(name),), (), (call,), {"x": TORCH, name: TORCH})

    assert linear("relu", "relu").fingerprint != linear("gelu", "gelu").fingerprint
    assert linear("relu", "relu").fingerprint == linear("y", "relu").fingerprint


def test_a_fingerprint_is_the_same_in_every_process(tmp_path):
    PROGRAM.save(tmp_path)
    code = "import sys; from proveout.program import Program; print(Program.load(sys.argv[1]).fingerprint)"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, env=environment)
        assert done.stdout.strip() == PROGRAM.fingerprint, done.stderr


def test_a_program_equals_nothing_else():
    assert PROGRAM.fingerprint != PROGRAM
    assert body_with(alpha=2) != PROGRAM


# ---- saving ------------------------------------------------------------------------------------------------------

TENSORS = {
    "bf16": torch.tensor([1.5, -2.0, 3e38]).bfloat16(),
    "bool": torch.tensor([[True, False]]),
    "scalar": torch.tensor(7),
    "empty": torch.empty(0, 3),
    "half": torch.tensor([0.1]).half(),
    "double": torch.tensor([math.pi], dtype=torch.float64),
    "complex": torch.tensor([1 + 2j]),
    "complex128": torch.tensor([1 + 2j], dtype=torch.complex128),
    "uint8": torch.tensor([255], dtype=torch.uint8),
    "nan": torch.tensor([math.nan, math.inf, -0.0]),
}


def program_with(tensors):
    constants = [
        Constant(n, t.flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b"") for n, t in tensors.items()
    ]
    specs = {n: TensorSpec(tuple(t.shape), dtype_name(t.dtype)) for n, t in tensors.items()}
    outputs = tuple(map(Ref, tensors))
    return Program("constants", "torch", (), (), tuple(constants), outputs, (), (), specs)


def bits(tensor):
    return tensor.flatten().view(torch.uint8).tolist() if tensor.numel() else []


def test_constants_of_every_kind_come_back_bit_by_bit(tmp_path):
    program = program_with(TENSORS)
    loaded = Program.load(program.save(tmp_path / "deep" / "folder"))
    assert loaded == program
    for constant in loaded.constants:
        found, wanted = constant_tensor(constant, loaded.specs[constant.name]), TENSORS[constant.name]
        assert (found.dtype, found.shape, bits(found)) == (wanted.dtype, wanted.shape, bits(wanted))


ODD = (math.inf, -math.inf, math.nan, complex(math.nan, -math.inf), 1j, -0.0, 2**80, 1e-320, "", "ttnn.x", None, ((),))


def test_odd_arguments_come_back(tmp_path):
    program = body_with(odd=(*ODD, Name("ttnn.bfloat16"), Ref("x.dev"), (True, 1, 1.0)))
    loaded = Program.load(program.save(tmp_path))
    found, wanted = loaded.body[1].attr("odd"), program.body[1].attr("odd")
    assert repr(found) == repr(wanted)
    assert str(loaded) == str(program)
    assert loaded.body[1].origin == program.body[1].origin
    assert loaded.body[-1].reason == "no row in the op table"


def test_a_saved_program_is_strict_json(tmp_path):
    def refuse(name):
        raise AssertionError(name)

    body_with(odd=ODD).save(tmp_path)
    json.loads((tmp_path / "program.json").read_text(), parse_constant=refuse)


def damage(folder, what):
    program, constants = folder / "program.json", folder / "constants.safetensors"
    match what:
        case "no folder":
            return folder / "nowhere"
        case "no constants":
            constants.unlink()
        case "bad constants":
            constants.write_bytes(b"junk")
        case "not json":
            program.write_text("{")
        case "a list":
            program.write_text("[]")
        case "schema":
            program.write_text(json.dumps(json.loads(program.read_text()) | {"schema": 99}))
    return folder


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("no folder", "nowhere does not hold a saved Program: .*No such file"),
        ("no constants", "does not hold a saved Program: .*constants.safetensors"),
        ("bad constants", "does not hold a saved Program"),
        ("not json", "does not hold a saved Program"),
        ("a list", "has schema None; this version reads 3 and 4"),
        ("schema", "program.json has schema 99; this version reads 3 and 4. Compile the model again."),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_a_sentence(tmp_path, what, words):
    PROGRAM.save(tmp_path)
    with pytest.raises(UsageError, match=words):
        Program.load(damage(tmp_path, what))


def test_a_config_prints_as_the_code_that_makes_it_and_is_json_and_back(tmp_path):
    shards = Construct.of("ttnn.ShardSpec", Construct.of("ttnn.CoreRangeSet", (CORE,)), (32, 64), Name("ttnn.R"))
    config = Construct.of("ttnn.Config", Name("device"), shards, dim=-1, on=True, text="it's", scale=0.5)
    assert str(config) == (
        "ttnn.Config(device, ttnn.ShardSpec(ttnn.CoreRangeSet([ttnn.CoreCoord(7, 0)]), [32, 64], ttnn.R), "
        'dim=-1, on=True, text="it\'s", scale=0.5)'
    )
    assert list(config.inside("ttnn.CoreCoord")) == [CORE]
    assert (config[0], config.by_name["dim"]) == (Name("device"), -1)
    body = (replace(PROGRAM.body[0], attrs=(*PROGRAM.body[0].attrs, ("config", config))), *PROGRAM.body[1:])
    program = replace(PROGRAM, body=body)
    loaded = Program.load(program.save(tmp_path))
    assert loaded.body[0].attr("config") == config
    assert loaded.fingerprint == program.fingerprint != PROGRAM.fingerprint


CORE = Construct.of("ttnn.CoreCoord", 7, 0)


def test_a_fingerprint_is_that_of_the_configs_text():
    """As every version made it: what was compiled before is found again under it."""

    def with_config(config):
        return replace(PROGRAM, body=(replace(PROGRAM.body[0], attrs=(("c", config),)), *PROGRAM.body[1:]))

    assert with_config(CORE).fingerprint == with_config(Name("ttnn.CoreCoord(7, 0)")).fingerprint


def test_a_program_of_schema_3_is_read_unless_it_holds_a_config_as_text(tmp_path):
    path = PROGRAM.save(tmp_path) / "program.json"
    old = json.loads(path.read_text()) | {"schema": 3}
    path.write_text(json.dumps(old))
    assert Program.load(tmp_path) == PROGRAM
    old["body"][0]["attrs"].append(["conv_config", {"name": "ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b)"}])
    path.write_text(json.dumps(old))
    with pytest.raises(UsageError, match="is a config as text, as older versions saved it"):
        Program.load(tmp_path)


# ---- random Programs ---------------------------------------------------------------------------------------------

TEXT = st.text(max_size=6)
DOTTED = TEXT.filter(lambda text: "(" not in text)
SPECS = st.builds(
    TensorSpec,
    st.lists(st.integers(0, 5), max_size=3).map(tuple),
    st.sampled_from(["float32", "bfloat16", "bool", "int64"]),
    st.sampled_from(["row_major", "tile"]),
    st.sampled_from([DRAM, L1]),
)


def arguments(names):
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), TEXT, DOTTED.map(Name)
    )
    if names:
        leaves |= st.sampled_from(names).map(Ref)

    def nested(inner):
        plain = inner.filter(lambda arg: not list(refs(arg)))
        made = st.builds(Construct, TEXT, st.dictionaries(TEXT, plain, max_size=2).map(lambda d: tuple(d.items())))
        return st.lists(inner, max_size=3).map(tuple) | made

    return st.recursive(leaves, nested, max_leaves=4)


@st.composite
def programs(draw):
    """Any list of calls on values that exist; whether ttnn would take them does not matter here."""
    specs = {}

    def name():
        new = draw(TEXT.filter(lambda n: n not in specs))
        specs[new] = draw(SPECS)
        return new

    given_ = [tuple(name() for _ in range(draw(st.integers(0, 2)))) for _ in range(3)]
    constants = tuple(Constant(n, draw(st.binary(max_size=9))) for n in given_[2])
    lists = []
    for _ in range(2):
        steps = []
        for _ in range(draw(st.integers(0, 3))):
            attrs = draw(st.dictionaries(TEXT, arguments(list(specs)), max_size=3))
            outputs = tuple(name() for _ in range(draw(st.integers(0, 2))))
            steps.append(Step(draw(TEXT), tuple(attrs.items()), outputs, Origin(source=draw(TEXT)), draw(TEXT)))
        lists.append(tuple(steps))
    outputs = tuple(draw(arguments(list(specs))) for _ in range(draw(st.integers(0, 2))))
    return Program(draw(TEXT), "ttnn", given_[0], given_[1], constants, outputs, *lists, specs)


@pytest.mark.slow
@quick
@given(programs())
def test_any_program_survives_saving_and_loading(program):
    with tempfile.TemporaryDirectory() as folder:
        loaded = Program.load(program.save(folder))
    assert loaded == program
    assert str(loaded) == str(program)
    assert json.dumps(loaded.to_json()) == json.dumps(program.to_json())
    assert loaded.constants == program.constants


@pytest.mark.slow
@quick
@given(programs())
def test_any_program_may_call_its_values_something_else(program):
    order = {name: f"value {i}" for i, name in enumerate(program.specs)}
    assert renamed(program, order.__getitem__).fingerprint == program.fingerprint


# ---- the verifier ------------------------------------------------------------------------------------------------


def test_a_valid_program_passes():
    verify(PROGRAM)
    verify(PROGRAM, infer)


BODY = PROGRAM.body


def body(*steps):
    return replace(PROGRAM, body=steps)


FAULTS = {
    "used before it is defined": (
        body(ADD, send("x", "x.dev"), *BODY[3:]),
        "%x.dev is used before it is defined: ttnn.add",
    ),
    "never defined": (body(*BODY[1:]), "%x.dev is used before it is defined"),
    "defined twice": (body(BODY[0], *BODY), "%x.dev is defined twice: ttnn.from_torch"),
    "an input defined again": (body(*BODY, fetch("w.dev", "x")), "%x is defined twice"),
    "a missing from_torch": (
        body(replace(ADD, attrs=(("input_tensor_a", Ref("x")), ("input_tensor_b", Ref("w.dev"))))),
        "%x is torch's where ttnn's is needed; a ttnn.from_torch is missing: ttnn.add",
    ),
    "a missing to_torch": (
        body(*BODY[:2], replace(HOST, attrs=(("self", Ref("sum")),))),
        "%sum is ttnn's where torch's is needed; a ttnn.to_torch is missing: aten.sort.default",
    ),
    "sent twice": (body(BODY[0], send("x.dev", "sum")), "%x.dev is ttnn's where torch's is needed"),
    "fetched from torch": (body(fetch("x", "back")), "%x is torch's where ttnn's is needed"),
    "a setup that depends on an input": (
        replace(PROGRAM, setup=(*PROGRAM.setup, BODY[0]), body=BODY[1:]),
        "a setup Step depends on %x, which changes at every call: ttnn.from_torch",
    ),
    "used after it was freed": (
        body(BODY[0], free("x.dev"), *BODY[1:]),
        "%x.dev is used after it was deallocated: ttnn.add",
    ),
    "freed twice": (body(*BODY[:3], free("x.dev"), *BODY[3:]), "%x.dev is used after it was deallocated: ttnn.deall"),
    "an output that is ttnn's": (
        replace(PROGRAM, outputs=(Ref("w.dev"),)),
        "output %w.dev is not a torch value; a ttnn.to_torch is missing",
    ),
    "an output that is nothing": (replace(PROGRAM, outputs=((1, Ref("ghost")),)), "output %ghost is not a torch value"),
    "an input without a spec": (
        replace(PROGRAM, specs={n: s for n, s in PROGRAM.specs.items() if n != "x"}),
        "x has no spec",
    ),
    "a result without a spec": (
        replace(PROGRAM, specs={n: s for n, s in PROGRAM.specs.items() if n != "order"}),
        "%order has no spec: aten.sort.default",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_verifier_catches(fault):
    program, words = FAULTS[fault]
    with pytest.raises(InvalidProgram) as caught:
        verify(program)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(DEVICE, shape=(4, 63)),
        replace(DEVICE, dtype="float32"),
        replace(DEVICE, layout="row_major"),
        replace(DEVICE, memory=L1),
    ],
    ids=["shape", "dtype", "layout", "memory"],
)
def test_the_verifier_catches_a_spec_that_is_not_what_the_kernel_gives(wrong):
    program = replace(PROGRAM, specs={**PROGRAM.specs, "sum": wrong})
    verify(program)
    with pytest.raises(
        InvalidProgram, match=r"specs are .* where the kernel gives \['bf16\[4,64\] tile dram'\]: ttnn.add"
    ):
        verify(program, infer)


def test_on_a_torch_target_there_is_only_one_world():
    call = step("ttnn.add", "y", input_tensor_a=Ref("x"), input_tensor_b=Ref("w"))
    program = Program("p", "torch", ("x",), ("w",), (), (Ref("y"),), (), (call,), {"x": TORCH, "w": TORCH, "y": TORCH})
    verify(program, lambda s, specs: infer(s, specs, "torch"))
