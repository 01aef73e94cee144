"""Writes `ttnn_model.py`: one editable class for each torch module, in ttnn calls, from a Program and its origins."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proveout.bringup.layers import Face, faces_of, loops_of
from proveout.bringup.method_text import RESERVED, Names, at, indented, unlike
from proveout.bringup.sizes import sized
from proveout.bringup.tree import Parts, Visit, parts_of, tree_of
from proveout.kernels.table import kind_of
from proveout.program import DEALLOCATE, FROM_TORCH, Construct, Name, Program, Ref, Step, refs
from proveout.report.script import arg_text, call_line, gives_none, identifier, in_words

DEVICE = Name("device")
ROLES = {"input_tensor_b": "weight", "weight_tensor": "weight", "bias_tensor": "bias", "tensor": "table"}
"""What a parameter is called by the argument that takes it."""
SHORT = {
    "split_query_key_value_and_split_heads": ("query", "key", "value"),
    "scaled_dot_product_attention": ("attended",),
    "concatenate_heads": ("heads",),
    "from_torch": ("sent",),
    "to_torch": ("taken",),
    "slice": ("part",),
    "abs": ("magnitude",),
    "sum": ("total",),
    "max": ("largest",),
    "min": ("smallest",),
    "pow": ("power",),
    "round": ("rounded",),
    "all": ("every",),
    "any": ("some",),
}
"""What results are called where the function's name says little, or is one of Python's own."""
OPERATORS = {"aten.add.Tensor": "+", "aten.sub.Tensor": "-", "aten.mul.Tensor": "*", "aten.div.Tensor": "/"}


@dataclass(frozen=True)
class GraphSource:
    """One graph of the model, ready to be written."""

    program: Program
    names: Mapping[str, str]
    """Of each weight: the parameter's or buffer's name in the model."""
    types: Mapping[str, str]
    """Of each module path: its torch class."""
    title: str
    """Of the class that holds all of it."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Of each input: the argument's name in the model's forward."""
    batch: int = 0
    """Of the inputs, where the code reads it from them; 0 where the code says it in numbers."""

    @property
    def parts(self) -> Parts:
        return parts_of(self.program)

    def tree(self) -> Visit:
        owners = {name: [p.rpartition(".")[0] for p in paths] for name, paths in self.sources.items()}
        return tree_of(self.parts.compute, self.types, owners)

    @functools.cached_property
    def stable(self) -> frozenset[str]:
        """What is the same at every call."""
        program = self.program
        prepared = (n for s in program.setup for n in s.outputs)
        return frozenset((*program.weights, *(c.name for c in program.constants), *prepared))

    @functools.cached_property
    def sources(self) -> dict[str, list[str]]:
        """The parameters that each value of the setup is made of."""
        paths: dict[str, list[str]] = {w: [self.names[w]] for w in self.program.weights}
        for step in self.program.setup:
            origins = list(dict.fromkeys(p for name in step.uses for p in paths.get(name, ())))
            paths.update((name, origins) for name in step.outputs)
        return paths


@dataclass
class WrittenClasses:
    """The classes written so far: alike ones once."""

    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    """(torch class, text with the class's name left open) to the class's name."""
    order: list[str] = field(default_factory=list)
    faces: dict[int, Face] = field(default_factory=dict)

    def name_for(self, torch_class: str, body: str, example: str, base: str) -> str:
        if (torch_class, body) not in self.texts:
            taken = set(self.texts.values()) | RESERVED
            name, count = torch_class, 1
            while name in taken:
                count += 1
                name = f"{torch_class}{count}"
            self.texts[torch_class, body] = name
            docstring = f'    """torch\'s {torch_class}, as in {in_words(example)}."""\n\n' if example else ""
            self.order.append(f"class {name}({base}):\n{docstring}{body}")
        return self.texts[torch_class, body]


def write_graph(graph: GraphSource, written: WrittenClasses) -> tuple[str, Visit]:
    """Add the classes of one graph; the name of the class that holds all of it, and the visits as written."""
    program, parts, root = graph.program, graph.parts, graph.tree()
    outside = {n for s in parts.receive for n in s.uses} | {r.name for r in refs(program.outputs)}
    written.faces |= faces_of(root, graph.stable, outside)
    face, received = written.faces[id(root)], {n for s in parts.receive for n in s.outputs}
    through = [r.name for r in refs(program.outputs) if r.name not in {*graph.stable, *received, *face.gives}]
    face.takes += [n for n in dict.fromkeys(through) if n not in face.takes]  # handed out as they came
    face.gives += list(dict.fromkeys(through))
    root_class = _write_visit(graph, root, written, parts)
    return root_class, root


def _write_visit(graph: GraphSource, visit: Visit, written: WrittenClasses, parts: Parts | None = None) -> str:
    """One class; the classes of the visits inside it come first."""
    face, is_root = written.faces[id(visit)], parts is not None
    kept: dict[str, str] = {}
    children, body = [], []
    names = Names()
    takes = [names.local(n, "x") for n in face.takes]
    seen = set(face.takes)
    classes = {id(v): _write_visit(graph, v, written) for v in visit.items if isinstance(v, Visit)}
    loops = loops_of(visit, classes, written.faces, set(face.gives))
    looped = {id(v): loop for loop in loops for v in loop.layers}
    for item in visit.items:
        if isinstance(item, Visit) and id(item) in looped:
            loop = looped[id(item)]
            if item is loop.layers[0]:
                first, last = (written.faces[id(v)] for v in (loop.layers[0], loop.layers[-1]))
                arguments = [names.of(n) for n in first.takes]
                hidden = names.local(last.gives[0], "hidden")
                children.append(loop.attribute_line(classes[id(item)], visit.path))
                body.append(f"{hidden} = {arguments[loop.place]}")
                arguments[loop.place] = hidden
                body.append(f"for layer in self.{loop.attribute}:\n{hidden} = layer({', '.join(arguments)})")
            seen.update(written.faces[id(item)].gives)
        elif isinstance(item, Visit):
            child_class, inner = classes[id(item)], written.faces[id(item)]
            children.append(f"        self.{item.name} = {child_class}(device, tensors, {at(item.path, visit.path)})")
            arguments = [names.of(n) for n in inner.takes]
            results = ", ".join(names.local(n, item.name) for n in inner.gives)
            call = f"self.{item.name}({', '.join(arguments)})"
            body.append(f"{results} = {call}" if results else call)
            seen.update(inner.gives)
        elif item.kernel == DEALLOCATE:
            if item.uses[0] in seen and item.uses[0] not in face.gives:
                body.append(f"ttnn.deallocate({names.of(item.uses[0])})")
        else:
            body += _call(item, graph, visit.path, names, kept)
            seen.update(item.outputs)
    head: list[str] = []
    if is_root:
        assert parts is not None
        head = [*_outer("send", parts.send, list(graph.program.inputs), face.takes, graph, kept, names)]
        tail = [*_outer("receive", parts.receive, face.gives, None, graph, kept, names)]
    else:
        tail = []
    gives = ", ".join(names.of(n) for n in face.gives)
    result = (
        f"        return {gives}{',' if is_root and len(face.gives) == 1 else ''}" if gives else "        return ()"
    )
    lines = ["    def __init__(self, device, tensors, path=''):", "        self.device, self.path = device, path"]
    lines += indented(_setup(graph, visit, kept))
    lines += children
    lines += ["", *head] if head else [""]
    device_line = (
        ["        device = self.device"] if _take_device(s for s in visit.items if isinstance(s, Step)) else []
    )
    lines += [f"    def {'compute' if is_root else 'forward'}(self{''.join(f', {t}' for t in takes)}):", *device_line]
    lines += [*indented(body), result]
    lines += ["", *tail] if tail else []
    torch_class = graph.types.get(visit.path, "") if visit.path else graph.title
    return written.name_for(torch_class or "Part", "\n".join(lines), visit.path, "Model" if is_root else "Module")


def _outer(
    name: str,
    steps: Sequence[Step],
    takes: Sequence[str],
    gives: Sequence[str] | None,
    graph: GraphSource,
    kept: dict[str, str],
    outer: Names,
) -> list[str]:
    """`send` or `receive` of the whole graph: what happens around the part that runs on the device."""  # fmt: skip
    program = graph.program
    local = Names()
    arguments = [local.local(n, graph.inputs.get(n) or outer.get(n, n)) for n in takes]
    computed = {n for s in steps for n in s.outputs} | set(takes)
    lines = [line for step in steps for line in _call(step, graph, "", local, kept)]
    if gives is not None:
        results = [local.of(n) for n in gives if n in computed]
        text = f"return {', '.join(results)}{',' * (len(results) == 1)}" if results else "return ()"
    else:
        wanted = {r.name for r in refs(program.outputs)}
        for value in sorted(wanted & graph.stable):
            local.keep(value, kept.setdefault(value, f"result{len(kept)}"))
        text = f"return [{', '.join(arg_text(o, local) for o in program.outputs)}]"
    device = ["        device = self.device"] if _take_device(steps) else []
    passed = "".join(f", {a}" for a in arguments)
    text_lines = [f"    def {name}(self{passed}):", *device, *indented([*lines, text])]
    return [*text_lines, ""] if name == "send" else text_lines


def _take_device(steps: Iterable[Step]) -> bool:
    """Whether some call names the device, or is given an object made for it."""
    args = [arg for step in steps for _, arg in step.attrs]
    return any(DEVICE in ((arg,) if not isinstance(arg, Construct) else arg.by_place) for arg in args)


def _call(step: Step, graph: GraphSource, path: str, names: Names, kept: dict[str, str]) -> list[str]:
    """One Step as Python; what it takes of the setup becomes an attribute of the module."""
    for key, arg in step.attrs:
        for ref in refs(arg):
            if ref.name in graph.stable:
                if ref.name not in kept:
                    kept[ref.name] = unlike(_kept_name(graph, path, ref.name, key), kept.values())
                names.keep(ref.name, kept[ref.name])
    short = _function(step)
    known = SHORT.get(short, ())
    for position, name in enumerate(step.outputs):
        names.local(name, known[position] if position < len(known) else short)
    if graph.batch:
        step = sized(step, graph.program.specs, names, graph.batch, graph.stable)
    if kind_of(step) == "convolution" and isinstance(step.attr("weight_tensor"), Ref):
        # Prepared at the first call and kept on the device, as a trace wants it.
        out, weight = names[step.outputs[0]], names.of(step.attr("weight_tensor").name)  # type: ignore[union-attr]
        bias = step.attr("bias_tensor")
        pair = f"{weight}, {names.of(bias.name) if isinstance(bias, Ref) else '_'}"
        line = call_line(step, names, "return_weights_and_bias=True").partition(" = ")[2]
        return [f"{out}, ({pair}) = {line}"]
    return [call_line(step, names)]


def _kept_name(graph: GraphSource, path: str, value: str, key: str) -> str:
    """As torch calls the parameter, seen from the module; several that are joined by all of their names."""
    inside = [p.removeprefix(f"{path}.").split(".") for p in graph.sources.get(value, ())]
    if not inside or any(".held." in p for p in graph.sources[value]):
        return ROLES.get(key, key if key.isidentifier() and key.islower() else "constant")
    last = {parts[-1] for parts in inside}
    if len(inside) == 1:
        name = "_".join(inside[0][-2:])
    else:
        owners = dict.fromkeys(parts[-2] for parts in inside if len(parts) > 1)
        name = "_".join([*owners, *(last if len(last) == 1 else ("joined",))])
    name = identifier(name)
    return f"m_{name}" if name[:1].isdigit() else name


def _setup(graph: GraphSource, visit: Visit, kept: Mapping[str, str]) -> list[str]:
    """The Steps of the setup that make what this module keeps."""
    program = graph.program
    needed = set(kept)
    for step in reversed(program.setup):
        if needed.intersection(step.outputs):
            needed.update(step.uses)
    names = Names()
    for weight in program.weights:
        names.fixed(weight, f"tensors[{at(graph.names[weight], visit.path)}]")
    for constant in program.constants:
        names.fixed(constant.name, f"tensors[{_constant(graph, constant.name)!r}]")
    lines = []
    for step in program.setup:
        if step.kernel == DEALLOCATE:
            if step.uses[0] in needed and step.uses[0] not in kept:
                lines.append(call_line(step, names))
        elif needed.intersection(step.outputs) and (text := _of_a_tensor(step, names)) and step.outputs[0] not in kept:
            names.fixed(step.outputs[0], text)
        elif needed.intersection(step.outputs):
            for name in step.outputs:
                if name in kept:
                    names.fixed(name, f"self.{kept[name]}")
                else:
                    names.local(name, _setup_name(step, graph, visit))
            lines.append(_as_torch(step, names) or call_line(step, names))
    plain = [n for n in kept if n in names.plain and n not in {o for s in program.setup for o in s.outputs}]
    return [*(f"self.{kept[n]} = {names.of(n)}" for n in plain), *lines]


def _of_a_tensor(step: Step, names: Names) -> str:
    """What prepares a weight on the host as the method of a tensor, to be written where its result is used."""
    how = {"aten.permute.default": "dims", "aten.reshape.default": "shape"}.get(step.kernel)
    value = step.attr(how) if how else None
    if not isinstance(value, tuple):
        return ""
    numbers = ", ".join(str(n) for n in value)
    source = names.of(step.uses[0])
    method = step.kernel.split(".")[1]
    return f"{source}.T" if (method, value) == ("permute", (1, 0)) else f"{source}.{method}({numbers})"


def _setup_name(step: Step, graph: GraphSource, visit: Visit) -> str:
    """A parameter on its way by the parameter's name, as seen from the module; what is made of it by the function's."""
    made_of = graph.sources.get(step.outputs[0], ())
    if step.kernel == FROM_TORCH and len(made_of) == 1:
        name = made_of[0]
        inside = name.removeprefix(f"{visit.path}.") if visit.path else name
        return "_".join(inside.split(".")[-2:])
    return _function(step)


def _function(step: Step) -> str:
    """What a Step calls, by its own name: `mul` of aten.mul.Tensor."""
    parts = step.kernel.removesuffix(".default").split(".")
    return parts[1].lstrip("_") if step.on_host else parts[-1]


def _as_torch(step: Step, names: Names) -> str:
    """What prepares weights, such as a folded batch norm or joined heads, as a person writes it; nothing for others."""
    attrs = dict(step.attrs)
    if step.kernel in OPERATORS and list(attrs) == ["self", "other"]:
        text = f"{arg_text(attrs['self'], names)} {OPERATORS[step.kernel]} {arg_text(attrs['other'], names)}"
    elif step.kernel == "aten.view.default" and isinstance(attrs["size"], tuple):
        text = f"{arg_text(attrs['self'], names)}.view({', '.join(map(str, attrs['size']))})"
    elif step.kernel == "aten.cat.default":
        text = f"torch.cat({arg_text(attrs['tensors'], names)}, dim={arg_text(attrs.get('dim', 0), names)})"
    elif step.kernel in ("aten.rsqrt.default", "aten.sqrt.default", "aten.neg.default"):
        text = f"{arg_text(attrs['self'], names)}.{_function(step)}()"
    else:
        return ""
    return f"{names[step.outputs[0]]} = {text}"


def _constant(graph: GraphSource, name: str) -> str:
    return f"{graph.program.name}.{name}"


def needs_given(programs: Iterable[Program]) -> bool:
    return any(gives_none(step) for program in programs for step in program.steps if step.on_host)
