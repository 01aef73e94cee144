"""Products and what is around them as one call each: bias, activation, residuals, and layer norms before and after."""

from __future__ import annotations

from dataclasses import dataclass, field

from proveout.devices.cuda.body import HALF, Body, reshape
from proveout.devices.cuda.ops import STATS_WIDTH
from proveout.program import Arg, Ref, Step
from proveout.types import TensorSpec

PRODUCT, FOLD, NORM = "proveout.product.default", "proveout.fold_norm.default", "proveout.norm.default"
VECTOR, SCALED = "proveout.vector.default", "proveout.scaled.default"
COLUMNS, PACK = "proveout.columns.default", "proveout.pack.default"
FEW_ROWS = 4
"""Up to here a product reads little but its weights, and each block can do the norm of its rows itself."""
MANY_COLUMNS = 16384
"""Beyond this a product (over a vocabulary) has several tiles for each multiprocessor: doing the norm in each of them
takes longer than a kernel does (768 to 50257 for 128 rows on an H200: 2 to 6 us against 1.4)."""
MOST_POSITIONS = 64
"""Of images whose mean a product of few rows takes: each of its blocks reads them all."""
ACTIVATIONS = {"ttnn.relu": "relu", "ttnn.gelu": "gelu"}


@dataclass
class Product:
    """One product to be, and the Steps that it takes in."""

    a: Ref
    w: Arg
    bias: Arg
    result: str
    columns: int
    gone: list[Step]
    activation: str = ""
    residuals: list[Ref] = field(default_factory=list)
    a_norm: Norm | None = None
    r_norm: Norm | None = None
    stats: bool = False
    before: Step | None = None
    """A layer norm of `a` that each block of a product of few rows does by itself."""


@dataclass(frozen=True)
class Norm:
    """A layer norm of a product's result, taken in by those who read it."""

    of: Product
    step: Step

    @property
    def eps(self) -> Arg:
        return self.step.attr("epsilon", 1e-12)


def fuse_products(body: Body, fold: bool, weights: str = "same") -> None:
    """With `fold`, layer norms between products are taken in by both; without, each is a call of its own. Products of a
    few rows take in what is before them either way. `weights`: their format."""
    _join_siblings(body)
    products: dict[str, Product] = {}
    taken: set[int] = set()
    for step in body.steps:
        if is_product(body, step):
            product = _grown(body, step, taken)
            taken.update(id(s) for s in product.gone)
            products[product.result] = product
    packed = {name for name, product in products.items() if _is_packed(body, product, weights)}
    few = {name: product for name, product in products.items() if _num_rows(body, product) <= FEW_ROWS}
    for product in few.values():
        product.before = _norm_before(body, product)
    if fold:
        many = {name: p for name, p in products.items() if name not in few and name not in packed}
        for step in body.steps:
            if step.kernel == "ttnn.layer_norm":
                _take_in(body, step, many)
    for name, product in products.items():
        if name in few:
            _emit_few(body, product, weights if name in packed else "same")
        elif name in packed:
            _emit_scaled(body, product)
        else:
            _emit(body, product)
    for step in body.steps:
        if step.kernel == "ttnn.layer_norm":
            _whole_norm(body, step)


def is_product(body: Body, step: Step) -> bool:
    """A matrix product of a value in half precision with a prepared matrix."""
    if step.kernel not in ("ttnn.linear", "ttnn.matmul"):
        return False
    plain = {k for k, _ in step.attrs} <= {"input_tensor_a", "input_tensor_b", "bias"}
    a, w, bias = step.attr("input_tensor_a"), step.attr("input_tensor_b"), step.attr("bias")
    if not plain or not body.is_prepared(w) or body.is_prepared(a):
        return False
    out, weight = body.specs[step.outputs[0]], body.spec(w)
    rows = bias is None or (body.is_prepared(bias) and len(body.spec(bias).shape) == 1)
    few = out.numel // out.shape[-1] <= FEW_ROWS and out.dtype == "float32"
    same = weight.dtype == out.dtype == body.spec(a).dtype
    return rows and len(weight.shape) == 2 and (out.dtype in HALF or few) and same


def _num_rows(body: Body, product: Product) -> int:
    return body.specs[product.result].numel // product.columns


def _is_packed(body: Body, product: Product, weights: str) -> bool:
    """Whether a product gets its weights in 8 bits: int8 where a few rows read them, float8 where the GPU's units take
    them, which want multiples of 16."""
    if weights == "int8":
        return _num_rows(body, product) <= FEW_ROWS
    inner, columns = body.spec(product.w).shape
    half = body.spec(product.w).dtype == "bfloat16"
    return (
        weights == "float8" and half and inner % 16 == 0 and columns % 16 == 0 and _num_rows(body, product) > FEW_ROWS
    )


def _norm_before(body: Body, product: Product) -> Step | None:
    """The layer norm whose result a product multiplies."""
    norm = body.maker(body.through_views(product.a), "ttnn.layer_norm")
    if norm is None or not (body.is_prepared(norm.attr("weight")) and body.is_prepared(norm.attr("bias"))):
        return None
    columns = body.spec(product.w).shape[0]
    return norm if body.spec(norm.attr("input_tensor")).shape[-1] == columns else None


def _join_siblings(body: Body) -> None:
    """Products of one value that are only looked at in parts (queries, keys, values) become one."""
    groups: dict[tuple[Arg, bool], list[Step]] = {}
    for step in body.steps:
        if is_product(body, step):
            only = body.only_reader(step.outputs[0])
            if only is not None and only.kernel == "ttnn.reshape":
                key = step.attr("input_tensor_a"), step.attr("bias") is None
                groups.setdefault(key, []).append(step)
    for (a, _), group in groups.items():
        group = [s for s in group if _is_cut_into_heads(body, s)]
        if len(group) > 1:
            _join(body, a, group)


def _is_cut_into_heads(body: Body, step: Step) -> bool:
    view = body.only_reader(step.outputs[0])
    return view is not None and body.specs[view.outputs[0]].shape[-1] < body.specs[step.outputs[0]].shape[-1]


def _join(body: Body, a: Arg, group: list[Step]) -> None:
    outs = [body.specs[s.outputs[0]] for s in group]
    width, rows, dtype = sum(o.shape[-1] for o in outs), outs[0].shape[:-1], outs[0].dtype
    first = group[0]
    whole = body.fresh(f"{first.outputs[0]}.joined", (*rows, width), dtype)
    attrs: list[tuple[str, Arg]] = [("input_tensor_a", a)]
    for key, dim in (("input_tensor_b", 1), ("bias", 0)):
        if first.attr(key) is None:
            continue
        shape = body.spec(first.attr(key)).shape
        name = body.fresh(f"{whole}.{key}", (*shape[:-1], width), dtype)
        body.prepare(Step("ttnn.concat", (("tensors", tuple(s.attr(key) for s in group)), ("dim", dim)), (name,)))
        attrs.append((key, Ref(name)))
    steps = [Step("ttnn.linear" if len(attrs) > 2 else "ttnn.matmul", tuple(attrs), (whole,), first.origin)]
    start = 0
    for step, out in zip(group, outs):
        bounds = (*(0 for _ in rows), start), (*rows, start + out.shape[-1])
        cut: tuple[tuple[str, Arg], ...] = (
            ("input_tensor", Ref(whole)),
            ("slice_start", bounds[0]),
            ("slice_end", bounds[1]),
        )
        steps.append(Step("ttnn.slice", cut, step.outputs, step.origin))
        start += out.shape[-1]
    body.substitute(group, steps, first.outputs[0])


def _grown(body: Body, step: Step, taken: set[int]) -> Product:
    """A product and what follows it, as far as nobody else reads what lies between."""
    a, out = step.attr("input_tensor_a"), body.specs[step.outputs[0]]
    assert isinstance(a, Ref)
    product = Product(a, step.attr("input_tensor_b"), step.attr("bias"), step.outputs[0], out.shape[-1], [step])
    passed: list[Step] = []  # views between what was taken in last and here
    at = step.outputs[0]
    while True:
        if not product.residuals and not product.activation:
            tail = _tanh_gelu(body, at)
            if tail is not None:
                product.activation, at = "gelu_tanh", tail[-1].outputs[0]
                product.gone += [*passed, *tail]
                product.result, passed = at, []
                continue
        reader = body.only_reader(at)
        if reader is None or id(reader) in taken:
            return product
        if reader.kernel == "ttnn.reshape" and body.specs[reader.outputs[0]].shape[-1:] == (product.columns,):
            passed.append(reader)
            at = reader.outputs[0]
            continue
        if reader.kernel in ACTIVATIONS and not product.residuals and not product.activation:
            tanh = str(reader.attr("variant")).endswith("Tanh")
            product.activation = "gelu_tanh" if tanh else ACTIVATIONS[reader.kernel]
        elif reader.kernel == "ttnn.add" and len(product.residuals) < 2:
            other = _other(body, reader, at)
            if other is None:
                return product
            product.residuals.append(other)
        else:
            return product
        at = product.result = reader.outputs[0]
        product.gone += [*passed, reader]
        passed = []


def _other(body: Body, add: Step, at: str) -> Ref | None:
    """What is added to a value: another of the same shape and dtype, made in the body."""
    if {k for k, _ in add.attrs} != {"input_tensor_a", "input_tensor_b"}:
        return None
    operands = [add.attr("input_tensor_a"), add.attr("input_tensor_b")]
    others = [o for o in operands if o != Ref(at)]
    if len(others) != 1 or not isinstance(others[0], Ref) or body.spec(others[0]) != body.specs[at]:
        return None
    return others[0]


def _tanh_gelu(body: Body, x: str) -> list[Step] | None:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), written out."""

    def reads(name: str, kernel: str, **wanted: object) -> Step | None:
        for step in body.readers(name):
            if step.kernel == kernel and all(_near(step.attr(k), v) for k, v in wanted.items()):
                return step
        return None

    half = reads(x, "ttnn.multiply", input_tensor_b=0.5)
    cube = reads(x, "ttnn.pow", exponent=3.0)
    if half is None or cube is None or x in body.results:
        return None
    chain = [cube]
    links: tuple[tuple[str, dict[str, object]], ...] = (
        ("ttnn.multiply", {"input_tensor_b": 0.044715}),
        ("ttnn.add", {}),
        ("ttnn.multiply", {"input_tensor_b": 0.7978845608028654}),
        ("ttnn.tanh", {}),
        ("ttnn.add", {"input_tensor_b": 1.0}),
        ("ttnn.multiply", {}),
    )
    for kernel, wanted in links:
        step = body.only_reader(chain[-1].outputs[0])
        if step is None or step.kernel != kernel or not all(_near(step.attr(k), v) for k, v in wanted.items()):
            return None
        chain.append(step)
    inner, last = chain[2], chain[-1]
    steps = [half, *chain]
    known = {id(s) for s in steps}
    right = Ref(x) in (inner.attr("input_tensor_a"), inner.attr("input_tensor_b"))
    product = Ref(half.outputs[0]) in (last.attr("input_tensor_a"), last.attr("input_tensor_b"))
    alone = all(id(r) in known for r in body.readers(x)) and body.only_reader(half.outputs[0]) is last
    return steps if right and product and alone else None


def _near(actual: object, wanted: object) -> bool:
    numbers = isinstance(actual, (int, float)) and isinstance(wanted, (int, float))
    return abs(actual - wanted) < 1e-6 if numbers else actual == wanted  # type: ignore[operator]


def _take_in(body: Body, norm: Step, products: dict[str, Product]) -> None:
    """A layer norm of a product's result, all of whose readers are products that can do it on the way."""
    source = body.through_views(norm.attr("input_tensor"))
    maker = products.get(source.name) if isinstance(source, Ref) else None
    weight, bias = norm.attr("weight"), norm.attr("bias")
    if maker is None or maker.columns % STATS_WIDTH or not (body.is_prepared(weight) and body.is_prepared(bias)):
        return
    if norm.outputs[0] in body.results or body.spec(norm.attr("input_tensor")).shape[-1] != maker.columns:
        return
    names, waiting, readers = {norm.outputs[0]}, [norm.outputs[0]], []
    while waiting:
        for reader in body.readers(waiting.pop()):
            if reader.kernel == "ttnn.reshape" and body.specs[reader.outputs[0]].shape[-1] == maker.columns:
                if reader.outputs[0] in body.results:
                    return
                names.add(reader.outputs[0])
                waiting.append(reader.outputs[0])
            else:
                readers.append(reader)
    takers = [
        p for p in products.values()
        if p.a.name in names or any(r.name in names for r in p.residuals)
    ]  # fmt: skip
    taken = {id(s) for p in takers for s in p.gone}
    if any(id(r) not in taken for r in readers) or any(p.columns > MANY_COLUMNS for p in takers):
        return
    for product in takers:
        mine = [r.name in names for r in product.residuals]
        if sum(mine) > 1 or (any(mine) and product.r_norm is not None):
            return
    folded_norm = Norm(maker, norm)
    maker.stats = True
    for product in takers:
        if product.a.name in names:
            product.a_norm = folded_norm
        for index, residual in enumerate(product.residuals):
            if residual.name in names:
                product.r_norm = folded_norm
                product.residuals.insert(0, product.residuals.pop(index))


def _whole_norm(body: Body, norm: Step) -> None:
    """A layer norm of a product's result as one call; others are fused with what is before them by Inductor."""
    x, weight, bias = norm.attr("input_tensor"), norm.attr("weight"), norm.attr("bias")
    source = body.through_views(x)
    known = isinstance(x, Ref) and body.maker(source, PRODUCT) is not None
    if not known or weight is None or bias is None or len(body.specs[norm.outputs[0]].shape) < 2:
        return
    assert isinstance(x, Ref)
    spec = body.specs[norm.outputs[0]]
    rows, steps = body.rows(x, spec.shape[-1])
    name = norm.outputs[0]
    if len(spec.shape) > 2:
        name = body.fresh(f"{name}.matrix", (spec.numel // spec.shape[-1], spec.shape[-1]), spec.dtype)
    attrs: tuple[tuple[str, Arg], ...] = (
        ("x", rows),
        ("gamma", weight),
        ("beta", bias),
        ("eps", norm.attr("epsilon", 1e-12)),
    )
    steps.append(Step(NORM, attrs, (name,), norm.origin))
    if name != norm.outputs[0]:
        steps.append(reshape(Ref(name), spec.shape, norm.outputs[0]))
    body.substitute([norm], steps, norm.outputs[0])


def _emit(body: Body, product: Product) -> None:
    spec = body.specs[product.result]
    steps: list[Step] = []

    def rows(arg: Ref, columns: int) -> Ref:
        view, more = body.rows(arg, columns)
        steps.extend(more)
        return view

    inner = body.spec(product.w).shape[0]
    a, w, bias, columns, a_stats = product.a, product.w, product.bias, None, None
    if product.a_norm is not None:
        a = Ref(product.a_norm.of.result)
        w, columns, bias = _folded(body, product)
        a_stats = Ref(_stats_name(product.a_norm.of))
    residuals: list[Arg] = list(product.residuals)
    r_norm = product.r_norm
    if r_norm is not None:
        residuals[0] = Ref(r_norm.of.result)
    attrs: dict[str, Arg] = {
        "a": rows(a, inner),
        "w": w,
        "bias": bias,
        "activation": product.activation,
        "residual": rows(residuals[0], product.columns) if residuals else None,  # type: ignore[arg-type]
        "second": rows(residuals[1], product.columns) if len(residuals) > 1 else None,  # type: ignore[arg-type]
        "a_stats": a_stats,
        "columns": columns,
        "a_eps": product.a_norm.eps if product.a_norm else 0.0,
        "r_stats": Ref(_stats_name(r_norm.of)) if r_norm else None,
        "r_gamma": r_norm.step.attr("weight") if r_norm else None,
        "r_beta": r_norm.step.attr("bias") if r_norm else None,
        "r_eps": r_norm.eps if r_norm else 0.0,
        "stats": product.stats,
    }
    matrix = (spec.numel // product.columns, product.columns)
    name = product.result if spec.shape == matrix else body.fresh(f"{product.result}.matrix", matrix, spec.dtype)
    stats = _stats_name(product)
    body.specs[stats] = TensorSpec((matrix[0], product.columns // STATS_WIDTH, 2) if product.stats else (0,), "float32")
    steps.append(Step(PRODUCT, tuple(attrs.items()), (name, stats), product.gone[0].origin))
    if name != product.result:
        steps.append(reshape(Ref(name), spec.shape, product.result))
    body.substitute(product.gone, steps, product.result)


def _emit_few(body: Body, product: Product, weights: str) -> None:
    """A product of a few rows, whose weights lie with their columns one after another."""
    steps: list[Step] = []
    inner = body.spec(product.w).shape[0]
    norm = product.before
    a = norm.attr("input_tensor") if norm is not None else product.a
    assert isinstance(a, Ref)
    a, positions = (a, 1) if norm is not None else _averaged(body, a)
    rows, view = body.rows(a, inner)
    steps += view
    residuals = _residual_rows(body, product, steps)
    w, scale = _packed(body, product, weights) if weights != "same" else (_columns(body, product.w), None)
    attrs: dict[str, Arg] = {"a": rows, "w": w, "scale": scale, "bias": product.bias, "activation": product.activation}
    attrs |= {"residual": residuals[0], "second": residuals[1]}
    attrs |= {"gamma": norm.attr("weight") if norm else None, "beta": norm.attr("bias") if norm else None}
    attrs["eps"] = norm.attr("epsilon", 1e-12) if norm else 0.0
    attrs["positions"] = positions
    _finish(body, product, VECTOR, attrs, steps)


def _averaged(body: Body, a: Ref) -> tuple[Ref, int]:
    """Where rows are the means of channels-last images' positions and nobody else reads them: the images, and how many
    positions each has."""
    at: Arg = a
    view = body.maker(a, "ttnn.reshape")
    if view is not None and body.only_reader(a.name) is not None:
        at = view.attr("input_tensor")
    mean = body.maker(at, "ttnn.mean")
    turned = None if mean is None else body.maker(mean.attr("input_tensor"), "ttnn.permute")
    if mean is None or turned is None or turned.attr("dims") != (0, 3, 1, 2):
        return a, 1
    source, dims = turned.attr("input_tensor"), mean.attr("dim")
    assert isinstance(source, Ref)
    batch, height, width, channels = body.spec(source).shape
    over = isinstance(dims, tuple) and {int(str(d)) % 4 for d in dims} == {2, 3}
    alone = body.only_reader(mean.outputs[0]) is not None
    same = body.spec(a).shape == (batch, channels) and body.spec(a).dtype == body.spec(source).dtype
    if not (over and alone and same) or height * width > MOST_POSITIONS:
        return a, 1
    return source, height * width


def _emit_scaled(body: Body, product: Product) -> None:
    """A product in float8."""
    steps: list[Step] = []
    rows, view = body.rows(product.a, body.spec(product.w).shape[0])
    steps += view
    residuals = _residual_rows(body, product, steps)
    w, scale = _packed(body, product, "float8")
    attrs: dict[str, Arg] = {"a": rows, "w": w, "scale": scale, "bias": product.bias, "activation": product.activation}
    attrs |= {"residual": residuals[0], "second": residuals[1]}
    _finish(body, product, SCALED, attrs, steps)


def _residual_rows(body: Body, product: Product, steps: list[Step]) -> tuple[Arg, Arg]:
    views: list[Arg] = [None, None]
    for index, residual in enumerate(product.residuals):
        views[index], more = body.rows(residual, product.columns)
        steps += more
    return views[0], views[1]


def _finish(body: Body, product: Product, kernel: str, attrs: dict[str, Arg], steps: list[Step]) -> None:
    spec = body.specs[product.result]
    matrix = (spec.numel // product.columns, product.columns)
    name = product.result if spec.shape == matrix else body.fresh(f"{product.result}.matrix", matrix, spec.dtype)
    steps.append(Step(kernel, tuple(attrs.items()), (name,), product.gone[0].origin))
    if name != product.result:
        steps.append(reshape(Ref(name), spec.shape, product.result))
    body.substitute(product.gone, steps, product.result)


def _columns(body: Body, w: Arg) -> Ref:
    """A weight with its columns one after another; a transposed view of one lies so already."""
    assert isinstance(w, Ref)
    maker = next((s for s in body.setup if w.name in s.outputs), None)
    if maker is not None and maker.kernel in (COLUMNS, "ttnn.permute", "ttnn.transpose"):
        return w
    name = f"{w.name}.columns"
    if name not in body.specs:
        spec = body.spec(w)
        body.prepare(Step(COLUMNS, (("w", w),), (body.fresh(name, spec.shape, spec.dtype),)))
    return Ref(name)


def _packed(body: Body, product: Product, dtype: str) -> tuple[Ref, Ref]:
    spec = body.spec(product.w)
    w, scale = (f"{product.result}.{x}" for x in (dtype, "scale"))
    body.specs[w], body.specs[scale] = TensorSpec(spec.shape, spec.dtype), TensorSpec(spec.shape[1:], "float32")
    body.prepare(Step(PACK, (("w", product.w), ("dtype", dtype)), (w, scale)))
    return Ref(w), Ref(scale)


def _stats_name(product: Product) -> str:
    return f"{product.result}.moments"


def _folded(body: Body, product: Product) -> tuple[Ref, Ref, Ref]:
    norm = product.a_norm
    assert norm is not None
    spec = body.spec(product.w)
    w = body.fresh(f"{product.result}.weight", spec.shape, spec.dtype)
    columns, bias = (body.fresh(f"{product.result}.{x}", spec.shape[1:], "float32") for x in ("columns", "bias"))
    operands = {"w": product.w, "bias": product.bias, "gamma": norm.step.attr("weight"), "beta": norm.step.attr("bias")}
    body.prepare(Step(FOLD, tuple(operands.items()), (w, columns, bias)))
    return Ref(w), Ref(columns), Ref(bias)
