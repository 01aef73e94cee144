"""Convolutions with the batch norm, residual and ReLU after them as one call, on images that stay channels-last."""

from __future__ import annotations

from proveout.devices.cuda.body import HALF, Body, permute, reshape
from proveout.program import Arg, Ref, Step

CONV, FOLD = "proveout.conv.default", "proveout.fold_conv.default"
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Channels last, and first."""


def fuse_convolutions(body: Body) -> None:
    for step in body.steps:
        if step.kernel == "ttnn.conv2d" and _serves(body, step):
            _fuse(body, step)


def _serves(body: Body, step: Step) -> bool:
    weight, bias, padding = step.attr("weight_tensor"), step.attr("bias_tensor"), step.attr("padding", (0, 0))
    prepared = body.is_prepared(weight) and (bias is None or body.is_prepared(bias))
    half = body.specs[step.outputs[0]].dtype in HALF and body.spec(step.attr("input_tensor")).dtype in HALF
    return prepared and half and step.attr("groups", 1) == 1 and isinstance(padding, tuple) and len(padding) == 2


def _fuse(body: Body, conv: Step) -> None:
    gone, at = [conv], conv.outputs[0]
    positions, filters = body.specs[at].shape[-2:]
    image = tuple(int(str(conv.attr(k))) for k in ("batch_size", "input_height", "input_width", "in_channels"))
    norm: Step | None = None
    residual: Ref | None = None
    activation = ""
    shape: tuple[int, ...] = ()  # [batch, height, width, channels], once a view has told it
    passed: list[Step] = []
    while not activation:
        reader = body.only_reader(at)
        if reader is None:
            break
        if reader.kernel in ("ttnn.reshape", "ttnn.permute"):
            now = body.specs[reader.outputs[0]].shape
            if reader.kernel == "ttnn.reshape" and not shape and len(now) == 4 and now[-1] == filters:
                shape = now
            elif not (reader.kernel == "ttnn.permute" and shape and reader.attr("dims") == FIRST):
                break
            passed.append(reader)
            at = reader.outputs[0]
            continue
        turned = shape and body.specs[at].shape == (shape[0], shape[3], shape[1], shape[2])
        if reader.kernel == "ttnn.batch_norm" and turned and norm is None and residual is None:
            norm = reader
        elif reader.kernel == "ttnn.add" and turned and residual is None:
            others = [a for a in (reader.attr("input_tensor_a"), reader.attr("input_tensor_b")) if a != Ref(at)]
            if len(others) != 1 or not isinstance(others[0], Ref) or body.spec(others[0]) != body.specs[at]:
                break
            residual = others[0]
        elif reader.kernel == "ttnn.relu":
            activation = "relu"
        else:
            break
        gone += [*passed, reader]
        passed, at = [], reader.outputs[0]
    result = gone[-1].outputs[0]
    dtype, weight = body.specs[result].dtype, conv.attr("weight_tensor")
    w = body.fresh(f"{result}.filters", (body.spec(weight).numel // filters, filters), dtype)
    bias = body.fresh(f"{result}.shift", (filters,), "float32")
    statistics = {k: norm.attr(n) if norm else None for k, n in NORM.items()}
    folding: dict[str, Arg] = {"weight": weight, "bias": conv.attr("bias_tensor"), **statistics}
    folding["eps"] = norm.attr("eps", 1e-5) if norm else 0.0
    body.prepare(Step(FOLD, tuple(folding.items()), (w, bias)))
    steps: list[Step] = []
    flat = (1, 1, positions, filters)
    if residual is not None:
        turned_name = body.fresh(f"{residual.name}.last", shape, dtype)
        flat_name = body.fresh(f"{residual.name}.flat", flat, dtype)
        steps += [permute(residual, LAST, turned_name), reshape(Ref(turned_name), flat, flat_name)]
        residual = Ref(flat_name)
    x = _picture(body, conv.attr("input_tensor"), image, steps)
    attrs: dict[str, Arg] = {"x": x, "w": Ref(w), "bias": Ref(bias), "residual": residual, "activation": activation}
    attrs |= {"image": image, "window": conv.attr("kernel_size"), "stride": conv.attr("stride", (1, 1))}
    attrs |= {"padding": conv.attr("padding", (0, 0)), "dilation": conv.attr("dilation", (1, 1))}
    if body.specs[result].shape == flat:
        steps.append(Step(CONV, tuple(attrs.items()), (result,), conv.origin))
    else:
        out = body.fresh(f"{result}.positions", flat, dtype)
        last = body.fresh(f"{result}.last", shape, dtype)
        steps += [Step(CONV, tuple(attrs.items()), (out,), conv.origin), reshape(Ref(out), shape, last)]
        steps.append(permute(Ref(last), FIRST, result))
    body.substitute(gone, steps, result)


NORM = {"mean": "running_mean", "variance": "running_var", "gamma": "weight", "beta": "bias"}


def _picture(body: Body, arg: Arg, image: tuple[int, ...], steps: list[Step]) -> Arg:
    """The operand as [batch, height, width, channels], as it lies in memory: no copy only to flatten it."""
    step = body.maker(arg, "ttnn.reshape")
    if step is not None and body.spec(step.attr("input_tensor")).shape == image:
        return step.attr("input_tensor")
    name = body.fresh(f"{conv_name(arg)}.picture", image, body.spec(arg).dtype)
    steps.append(reshape(arg, image, name))
    return Ref(name)


def conv_name(arg: Arg) -> str:
    assert isinstance(arg, Ref)
    return arg.name
