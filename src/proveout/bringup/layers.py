"""What each visit of a module takes and gives, and which layers are alike and follow each other: a loop says all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proveout.bringup.tree import Visit
from proveout.program import DEALLOCATE, Step
from proveout.report.script import identifier


@dataclass
class Face:
    """What a visit takes and gives: values of the Program, in order."""

    takes: list[str]
    gives: list[str]


def faces_of(root: Visit, stable: frozenset[str], outside: set[str]) -> dict[int, Face]:
    """Of each visit by its id: values that are stable are nobody's, and those that are used outside are given."""
    faces: dict[int, Face] = {}
    _fill(root, stable, outside, _readers(root), faces)
    return faces


def _readers(root: Visit) -> dict[str, list[int]]:
    """Who reads each value, by the Step's place in the body."""
    readers: dict[str, list[int]] = {}
    for index, step in enumerate(root.steps()):
        if step.kernel != DEALLOCATE:
            for name in step.uses:
                readers.setdefault(name, []).append(index)
    return readers


def _fill(
    visit: Visit,
    stable: frozenset[str],
    outside: set[str],
    readers: Mapping[str, Sequence[int]],
    faces: dict[int, Face],
    start: int = 0,
) -> int:
    """Fill in what each visit takes and gives; the number of its Steps."""  # fmt: skip
    index = start
    for item in visit.items:
        index = _fill(item, stable, outside, readers, faces, index) if isinstance(item, Visit) else index + 1
    steps = [s for s in visit.steps() if s.kernel != DEALLOCATE]
    results = {name: None for s in steps for name in s.outputs}
    used = dict.fromkeys(name for s in steps for name in s.uses)
    inside = range(start, index)
    takes = [n for n in used if n not in results and n not in stable]
    gives = [n for n in results if n in outside or any(i not in inside for i in readers.get(n, ()))]
    faces[id(visit)] = Face(takes, gives)
    return index


@dataclass(frozen=True)
class LayerLoop:
    """Layers of one class, one after the other: each takes what the one before gives, and else the same."""

    layers: tuple[Visit, ...]
    place: int
    """Of the value that goes through all of them, among what each takes."""

    @property
    def attribute(self) -> str:
        return self.layers[0].name.partition(".")[0]

    def attribute_line(self, torch_class: str, path: str) -> str:
        inside = self.layers[0].path.removeprefix(f"{path}." if path else "").rpartition(".")[0]
        first = int(self.layers[0].path.rpartition(".")[2])
        numbers = f"{first}, {first + len(self.layers)}" if first else f"{len(self.layers)}"
        plain = inside.replace(".", "").isidentifier()
        where = f"f'{inside}.{{i}}'" if plain else f"{inside!r} + f'.{{i}}'"
        layer = f"{torch_class}(device, tensors, at(path, {where}))"
        return f"        self.{self.attribute} = [{layer} for i in range({numbers})]"


def loops_of(
    visit: Visit, classes: Mapping[int, str], faces: Mapping[int, Face], returned: set[str]
) -> list[LayerLoop]:
    """Runs of layers that may be written as a loop; their names become the places in its list."""
    items, loops, index = visit.items, [], 0
    while index < len(items):
        run = [items[index]] if isinstance(items[index], Visit) else []
        while run and index + len(run) < len(items):
            after = items[index + len(run)]
            if not _goes_on([v for v in run if isinstance(v, Visit)], after, classes, faces):
                break
            run.append(after)
        layers = tuple(v for v in run if isinstance(v, Visit))
        between = {n for v in layers[:-1] for n in faces[id(v)].gives}
        others = [i for i in items if not (isinstance(i, Visit) and i in layers)]
        read = {n for i in others for n in (faces[id(i)].takes if isinstance(i, Visit) else i.uses)}
        prefix = layers[0].path.rpartition(".")[0] if layers else ""
        if len(layers) > 1 and prefix.startswith(visit.path) and not between & (read | returned):
            taken = faces[id(layers[1])].takes
            loop = LayerLoop(layers, taken.index(faces[id(layers[0])].gives[0]))
            name = identifier(prefix.removeprefix(visit.path).lstrip(".").replace(".", "_")) or "layers"
            for number, layer in enumerate(layers):
                layer.name = f"{name}.{number}"
            loops.append(loop)
        index += max(1, len(layers))
    return loops


def _goes_on(run: list[Visit], after: Step | Visit, classes: Mapping[int, str], faces: Mapping[int, Face]) -> bool:
    """Whether a layer is the next of these."""
    last = run[-1]
    if not isinstance(after, Visit) or classes[id(after)] != classes[id(last)]:
        return False
    (prefix, _, number), (other, _, following) = (v.path.rpartition(".") for v in (last, after))
    if prefix != other or not (number.isdigit() and following.isdigit() and int(following) == int(number) + 1):
        return False
    before, face = faces[id(last)], faces[id(after)]
    if len(before.gives) != 1 or len(face.gives) != 1 or face.takes.count(before.gives[0]) != 1:
        return False
    place = face.takes.index(before.gives[0])
    rest = [[n for i, n in enumerate(f.takes) if i != place] for f in (before, face)]
    return rest[0] == rest[1]
