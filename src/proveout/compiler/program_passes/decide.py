"""Does what `settings.per_op` says of single ops: formats, fidelity, accumulation, memory, program config.

It runs when every Step is where it will be, so a choice changes the Step it is about and what that Step's readers find,
and nothing else: the time of a choice is the difference of a few Steps' times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from proveout.chip.features import product_of
from proveout.chip.fidelity import default_fidelity
from proveout.chip.program_config import spread
from proveout.compiler.program_passes.configure_products import config_of
from proveout.compiler.program_passes.pack_weights import Setup, with_weight
from proveout.errors import CompileError
from proveout.kernels.cost import step_device_ops
from proveout.kernels.faithful.settings import CONFIGS
from proveout.kernels.row import MATRIX_UNIT, flat_specs
from proveout.kernels.signatures import parameters
from proveout.kernels.table import MEMORY_NAMES, infer, kernels, kind_of, refusal, specs_of
from proveout.program import DEALLOCATE, Arg, Construct, Name, Program, Ref, Step
from proveout.settings import Decided
from proveout.types import DRAM, DeviceSpec, Settings, TensorSpec

Choices = Mapping[Decided, str]
"""What is decided of one Step."""
NOTHING: Choices = {}


def decide(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    names = op_names(program)
    work, specs, body = Setup(program), dict(program.specs), []
    for step in program.body:
        choices = choices_of(names.get(step.outputs[0], "") if step.outputs else "", settings)
        if "weights" in choices:
            step = _weighed(step, choices["weights"], work)
            specs.update((n, s) for n, s in work.specs.items() if n not in specs)
        step = decided(step, choices, specs, program.specs, chip, settings)
        if not step.on_host and step.kernel != DEALLOCATE:
            reason = refusal(kernels()[step.kernel], specs_of(step, specs)) if choices else None
            if reason is not None:
                raise CompileError(f"{names.get(step.outputs[0], step.kernel)} cannot be decided so: {reason}.")
            specs.update(zip(step.outputs, infer(step, specs, chips=program.chips)))
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
        step = _with(step, dtype=Name(f"ttnn.{choices['result']}"))
    elif pins_format(step) and step.attr("dtype") is None:
        # An operand in another format must not change the format of everything after it.
        result = infer(step, specs)[0].dtype
        if result != before[step.outputs[0]].dtype and "float" in result:
            step = _with(step, dtype=Name(f"ttnn.{before[step.outputs[0]].dtype}"))
    if choices.get("memory") == "dram" and "memory_config" in takes:
        step = _with(step, memory_config=MEMORY_NAMES[DRAM])
    if "fidelity" in choices or "accumulate" in choices:
        step = _computing(step, choices, specs, chip, settings)
    if "config" in choices and kind_of(step) == "product":
        step = replace(step, attrs=tuple((k, v) for k, v in step.attrs if k != "program_config"))
        if choices["config"] == "spread":
            probe = infer(step, specs)
            around = {**specs, **dict(zip(step.outputs, probe))}
            product = product_of(step_device_ops(step, around, chip, settings)[0])
            if product.batch == 1:
                step = _with(step, program_config=config_of(spread(product, chip), chip.grid))
    return step


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
    return _with(step, **{name: Construct.of("ttnn.WormholeComputeKernelConfig", **said)})


def _weighed(step: Step, dtype: str, work: Setup) -> Step:
    """A product or convolution with its weight in another format."""
    held = kernels()[step.kernel].weight if kind_of(step) in MATRIX_UNIT else None
    weight = step.attr(held.operand) if held else None
    if held is None or not isinstance(weight, Ref) or not work.is_weight(weight.name):
        return step
    return with_weight(step, held, weight.name, dtype, work)


def _with(step: Step, **changed: Arg) -> Step:
    return replace(step, attrs=tuple({**dict(step.attrs), **changed}.items()))
