"""Convolutions with the batch norm, residual and ReLU after them as one call, on images that stay channels-last."""

from __future__ import annotations

from proveout.devices.cuda.body import HALF, Body, permute, reshape
from proveout.devices.cuda.ops import MOST_SPOTS, conv_size
from proveout.program import Arg, Ref, Step

CONV, FOLD, POOL = "proveout.conv.default", "proveout.fold_conv.default", "proveout.pool.default"
FOLD_BESIDE = "proveout.fold_beside.default"
SLICE = 32
"""Channels that a step of a convolution takes at least, where they are taken in slices."""
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Channels last, and first."""


def fuse_convolutions(body: Body) -> None:
    for step in body.steps:
        if step.kernel == "ttnn.conv2d" and _serves(body, step):
            _fuse(body, step)
    for step in body.steps:
        if step.kernel == CONV and step.attr("residual") is not None:
            _join(body, step)
    for step in body.steps:
        if step.kernel == "ttnn.max_pool2d":
            _pool(body, step)


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
    flat = (1, 1, positions, filters)
    shape: tuple[int, ...] = ()  # [batch, height, width, channels], once a view has told it
    if image[0] == 1 and _out_height(conv, image[1]) == 1:  # lies so already
        shape = flat
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
    if residual is not None:
        turned_name = body.fresh(f"{residual.name}.last", shape, dtype)
        flat_name = body.fresh(f"{residual.name}.flat", flat, dtype)
        steps += [permute(residual, LAST, turned_name), reshape(Ref(turned_name), flat, flat_name)]
        residual = Ref(flat_name)
    x = _picture(body, conv.attr("input_tensor"), image, steps)
    attrs: dict[str, Arg] = {"x": x, "w": Ref(w), "bias": Ref(bias), "residual": residual, "activation": activation}
    attrs |= {"image": image, "window": conv.attr("kernel_size"), "stride": conv.attr("stride", (1, 1))}
    attrs |= {"padding": conv.attr("padding", (0, 0)), "dilation": conv.attr("dilation", (1, 1))}
    attrs |= {"beside": None, "steps": (1, 1)}
    if body.specs[result].shape == flat:
        steps.append(Step(CONV, tuple(attrs.items()), (result,), conv.origin))
    else:
        out = body.fresh(f"{result}.positions", flat, dtype)
        last = body.fresh(f"{result}.last", shape, dtype)
        steps += [Step(CONV, tuple(attrs.items()), (out,), conv.origin), reshape(Ref(out), shape, last)]
        steps.append(permute(Ref(last), FIRST, result))
    body.substitute(gone, steps, result)


def _out_height(conv: Step, height: int) -> int:
    names = (("kernel_size", (1, 1)), ("stride", (1, 1)), ("padding", (0, 0)), ("dilation", (1, 1)))
    sizes = [conv.attr(name, default) for name, default in names]
    return conv_size(height, *(int(str(size[0])) for size in sizes if isinstance(size, tuple)))


def _join(body: Body, last: Step) -> None:
    """A convolution and the 1 x 1 convolution that is added to it as one call, whose sum is over both: the shortcut of
    a block that changes the size of its images."""
    other = _residual_maker(body, last)
    if other is None:
        return
    pair = (last, other)
    if any(step.attr("beside") is not None for step in pair):
        return
    if other.attr("residual") is not None or other.attr("activation") != "":
        return
    side = next((s for s in pair if s.attr("window") == (1, 1) and s.attr("padding") == (0, 0)), None)
    if side is None or any(_image(step)[3] % SLICE for step in pair):
        return
    main = other if side is last else last
    if body.spec(main.attr("w")).shape[0] > MOST_SPOTS * _image(main)[3]:
        return
    w, bias = (main.attr(name) for name in ("w", "bias"))
    inner, filters = body.spec(w).shape[0] + body.spec(side.attr("w")).shape[0], body.spec(w).shape[1]
    both = body.fresh(f"{last.outputs[0]}.both", (inner, filters), body.spec(w).dtype)
    shift = body.fresh(f"{last.outputs[0]}.sum", (filters,), "float32")
    operands = {"w": w, "bias": bias, "other": side.attr("w"), "other_bias": side.attr("bias")}
    body.prepare(Step(FOLD_BESIDE, tuple(operands.items()), (both, shift)))
    attrs = dict(main.attrs) | {"w": Ref(both), "bias": Ref(shift), "residual": None}
    attrs |= {"activation": last.attr("activation"), "beside": side.attr("x"), "steps": side.attr("stride")}
    joined = Step(CONV, tuple(attrs.items()), last.outputs, main.origin)
    body.substitute([other, last], [joined], last.outputs[0])


def _residual_maker(body: Body, last: Step) -> Step | None:
    """The convolution whose result is this one's residual and nothing else, as it is."""
    reader, at, turns = last, last.attr("residual"), []
    while (view := body.maker(at, "ttnn.reshape", "ttnn.permute")) is not None:
        if body.only_reader(view.outputs[0]) is not reader:
            return None
        turns.append(view.attr("dims"))  # a reshape has none
        reader, at = view, view.attr("input_tensor")
    maker = body.maker(at, CONV)
    if maker is None or body.only_reader(maker.outputs[0]) is not reader:
        return None
    while turns and turns[-1] is None:
        turns.pop()
    while turns and turns[0] is None:
        turns.pop(0)
    return maker if turns in ([], [LAST, FIRST]) else None


def _image(step: Step) -> tuple[int, ...]:
    image = step.attr("image")
    assert isinstance(image, tuple)
    return tuple(int(str(n)) for n in image)


def _pool(body: Body, step: Step) -> None:
    """A max pool between convolutions, of images that stay channels-last. What else reads it is better joined to it."""
    arg, result = step.attr("input_tensor"), step.outputs[0]
    half = body.specs[result].dtype in HALF and body.specs[result].dtype == body.spec(arg).dtype
    if not half or step.attr("ceil_mode", False) or not _feeds_convolution(body, result):
        return
    image = tuple(int(str(step.attr(k))) for k in ("batch_size", "input_h", "input_w", "channels"))
    steps: list[Step] = []
    attrs: dict[str, Arg] = {"x": _picture(body, arg, image, steps), "image": image}
    sizes = {"window": "kernel_size", "stride": "stride", "padding": "padding", "dilation": "dilation"}
    attrs |= {name: step.attr(given) for name, given in sizes.items()}
    steps.append(Step(POOL, tuple(attrs.items()), step.outputs, step.origin))
    body.substitute([step], steps, result)


def _feeds_convolution(body: Body, name: str) -> bool:
    readers = body.readers(name)
    views = [s for s in readers if s.kernel in ("ttnn.reshape", "ttnn.permute")]
    return any(s.kernel == CONV for s in readers) or any(_feeds_convolution(body, s.outputs[0]) for s in views)


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
