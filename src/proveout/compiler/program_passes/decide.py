"""Does what `settings.per_op` says of single ops: formats, fidelity, accumulation, memory, program config.

It runs when every Step is where it will be, so a choice changes the Step it is about and what that Step's readers find,
and nothing else: the time of a choice is the difference of a few Steps' times.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from proveout.chip.features import product_of
from proveout.chip.fidelity import default_fidelity
from proveout.chip.memory import shard_refusal
from proveout.chip.program_config import spread
from proveout.compiler.program_passes.configure_products import config_of
from proveout.compiler.program_passes.pack_weights import Setup, conv_config, with_weight
from proveout.errors import CompileError
from proveout.kernels.cost import step_device_ops
from proveout.kernels.faithful.settings import CONFIGS
from proveout.kernels.memory_config import LAYOUTS, memory_arg
from proveout.kernels.row import MATRIX_UNIT, flat_specs
from proveout.kernels.signatures import parameters
from proveout.kernels.table import MEMORY_NAMES, infer, kernels, kind_of, refusal, specs_of
from proveout.kernels.windows import shards_of
from proveout.program import DEALLOCATE, Arg, Construct, Name, Program, Ref, Step
from proveout.settings import Decided
from proveout.types import DRAM, DeviceSpec, Memory, Settings, Sharding, TensorSpec

Choices = Mapping[Decided, str]
"""What is decided of one Step."""
NOTHING: Choices = {}
SHARDS: tuple[Sharding, ...] = ("height", "block")
ELEMENTWISE = ("unary", "binary")
COMPUTING: tuple[Decided, ...] = ("fidelity", "accumulate")


def decide(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    names = op_names(program)
    work, specs, body = Setup(program), dict(program.specs), []
    for original in program.body:
        step = original
        choices = choices_of(names.get(step.outputs[0], "") if step.outputs else "", settings)
        if "weights" in choices:
            step = _weighed(step, choices["weights"], work)
            specs.update((n, s) for n, s in work.specs.items() if n not in specs)
        step = decided(step, choices, specs, program.specs, chip, settings)
        if not step.on_host and step.kernel != DEALLOCATE:
            refused = refusal(kernels()[step.kernel], specs_of(step, specs)) if choices else None
            specs.update(zip(step.outputs, infer(step, specs, chips=program.chips)))
            reason = refused or shards_refusal(step, specs, original, program.specs)
            if reason is not None:
                raise CompileError(f"{names.get(step.outputs[0], step.kernel)} cannot be decided so: {reason}.")
        body.append(step)
    return replace(program, setup=tuple(work.steps), body=tuple(body), specs={**work.specs, **specs})


def op_names(program: Program) -> dict[str, str]:
    """What `per_op` calls the Step that makes a value: its module and kernel, and which one of that kernel there it is:
    `encoder.0:ttnn.matmul#2`."""
    seen: Counter[str] = Counter()
    names = {}
    for step in program.body:
        if step.on_host or not step.outputs:
            continue
        name = f"{step.origin.module}:{step.kernel}"
        seen[name] += 1
        names[step.outputs[0]] = f"{name}#{seen[name]}" if seen[name] > 1 else name
    return names


def choices_of(name: str, settings: Settings) -> dict[Decided, str]:
    """What the settings say of the op of this name; the last word counts."""
    return {decided: value for pattern, decided, value in settings.per_op if name and fnmatchcase(name, pattern)}


def computing_choices(settings: Settings) -> Settings:
    """Settings that say nothing of single ops but what their compute configs hold: such a config follows from the
    formats around it, so it is made anew when one of those is decided on top."""
    return replace(settings, per_op=tuple(one for one in settings.per_op if one[1] in COMPUTING))


def decided(
    step: Step,
    choices: Choices,
    specs: Mapping[str, TensorSpec],
    before: Mapping[str, TensorSpec],
    chip: DeviceSpec,
    settings: Settings,
) -> Step:
    """One Step with everything decided but its weight; `before` are the specs when nothing was decided."""
    if step.on_host or step.kernel == DEALLOCATE:
        return step
    takes = parameters(step.kernel)
    if "result" in choices and "dtype" in takes:
        step = step.with_attrs(dtype=Name(f"ttnn.{choices['result']}"))
    elif pins_format(step) and step.attr("dtype") is None:
        # An operand in another format must not change the format of everything after it.
        result = infer(step, specs)[0].dtype
        if result != before[step.outputs[0]].dtype and "float" in result:
            step = step.with_attrs(dtype=Name(f"ttnn.{before[step.outputs[0]].dtype}"))
    step = _placed(step, choices, specs, before, chip)
    if "fidelity" in choices or "accumulate" in choices:
        step = _computing(step, choices, specs, chip, settings)
    if "config" in choices and kind_of(step) == "product":
        step = step.without("program_config")
        if choices["config"] == "spread":
            probe = infer(step, specs)
            around = {**specs, **dict(zip(step.outputs, probe))}
            product = product_of(step_device_ops(step, around, chip, settings)[0])
            if product.batch == 1:
                step = step.with_attrs(program_config=config_of(spread(product, chip), chip.grid))
    return step


def _placed(
    step: Step, choices: Choices, specs: Mapping[str, TensorSpec], before: Mapping[str, TensorSpec], chip: DeviceSpec
) -> Step:
    """The Step with its result where it was decided; a convolution computes in the shards that it leaves it in."""
    if not pins_place(step):
        return step
    if choices.get("memory") == "dram":
        return step.with_attrs(memory_config=MEMORY_NAMES[DRAM])
    for kind in SHARDS:
        if choices.get("memory") == kind:
            step = in_shards(step, kind, specs) if kind_of(step) == "convolution" else step
            return step.with_attrs(memory_config=memory_arg(shards_for(before[step.outputs[0]], kind, chip)))
    if step.attr("memory_config") is None and infer(step, specs)[0].memory != before[step.outputs[0]].memory:
        # An operand that was left in shards must not take everything after it along.
        return step.with_attrs(memory_config=memory_arg(before[step.outputs[0]].memory))
    return step


def shards_for(spec: TensorSpec, kind: Sharding, chip: DeviceSpec) -> Memory:
    """Where a result of this shape lies when it is left in shards: the same for every op, so neighbours agree."""
    shard = shards_of(math.prod(spec.shape[:-1]), spec.shape[-1], kind, chip)
    memory = Memory("l1", kind, shard)
    refused = shard_refusal(replace(spec, memory=memory), chip)
    if refused is not None:
        raise CompileError(f"a result of {spec.shape} cannot lie in {kind} shards: {refused}.")
    return memory


def in_shards(step: Step, kind: Sharding, specs: Mapping[str, TensorSpec]) -> Step:
    """A convolution that computes in such shards; what arrives in others may be moved."""
    source, said = step.attr("input_tensor"), dict[str, Arg]()
    if isinstance(source, Ref) and specs[source.name].memory.sharding not in ("interleaved", kind):
        said["reshard_if_not_optimal"] = True
    return step.with_attrs(conv_config=conv_config(step, shard_layout=LAYOUTS[kind], **said))


def takes_shards(step: Step) -> bool:
    """Whether a Step can read results that were left in shards; an element-wise one leaves its own in the same."""
    return step.kernel == DEALLOCATE or kind_of(step) in ("convolution", *ELEMENTWISE)


def shards_refusal(
    step: Step, specs: Mapping[str, TensorSpec], original: Step, before: Mapping[str, TensorSpec]
) -> str | None:
    """Why a decision leaves an element-wise Step no shards that ttnn takes: its operands and its result must lie in the
    same, unless they did not before."""
    if kind_of(step) not in ELEMENTWISE or not _mixed(step, specs) or _mixed(original, before):
        return None
    return "operands and result lie in different shards"


def _mixed(step: Step, specs: Mapping[str, TensorSpec]) -> bool:
    result = specs[step.outputs[0]]
    places = {result.memory, *(specs[n].memory for n in step.uses if specs[n].shape == result.shape)}
    return len(places) > 1 and any(place.is_sharded for place in places)


def pins_place(step: Step) -> bool:
    """Whether a Step can say where its result lies, wherever its operands do."""
    return bool(step.outputs) and not step.is_transfer and "memory_config" in parameters(step.kernel)


def pins_format(step: Step) -> bool:
    """Whether a Step can say the format of its result, whatever its operands' are."""
    moves = step.is_transfer or kind_of(step) in ("layout", "memory", "cast", "view", "order", "move")
    return bool(step.outputs) and not moves and "dtype" in parameters(step.kernel)


def config_name(step: Step) -> str | None:
    """The parameter that takes a Step's compute config; None where it has none."""
    return next((name for name in CONFIGS if name in parameters(step.kernel)), None)


def _computing(
    step: Step, choices: Choices, specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings
) -> Step:
    """The Step with its compute config: what is not decided is said as ttnn would choose it, since a config that leaves
    something out means another default."""
    name, operands = config_name(step), specs_of(step, specs)
    if name is None:
        return step
    flat = [s.dtype for v in operands.values() for s in flat_specs(v)]
    matrix = kind_of(step) == "product"
    usual = default_fidelity(flat, chip) if matrix else "HiFi4"
    fidelity = choices.get("fidelity") or settings.math_fidelity or usual
    out = infer(step, specs)[0].dtype
    wide = choices["accumulate"] == "float32" if "accumulate" in choices else out == "float32" or flat[0] == "float32"
    said: dict[str, Arg] = {"math_fidelity": Name(f"ttnn.MathFidelity.{fidelity}"), "fp32_dest_acc_en": wide}
    if matrix and not wide:
        said["packer_l1_acc"] = True
    return step.with_attrs(**{name: Construct.of("ttnn.WormholeComputeKernelConfig", **said)})


def _weighed(step: Step, dtype: str, work: Setup) -> Step:
    """A product or convolution with its weight in another format."""
    held = kernels()[step.kernel].weight if kind_of(step) in MATRIX_UNIT else None
    weight = step.attr(held.operand) if held else None
    if held is None or not isinstance(weight, Ref) or not work.is_weight(weight.name):
        return step
    return with_weight(step, held, weight.name, dtype, work)
