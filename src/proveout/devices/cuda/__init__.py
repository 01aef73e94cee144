"""NVIDIA GPUs: the Program's torch meaning, rewritten to fused calls; each call goes to the fastest candidate for its
shape, and what is in no fused call goes to Inductor (`cuda`) or to torch kernel by kernel (`cuda:eager`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from proveout.devices.cuda.choose import ENOUGH_BYTES, Candidate, best, choices
from proveout.devices.cuda.modes import Captured, Pending, Runner
from proveout.devices.cuda.rewrite import rewrite
from proveout.devices.execute import check_chips
from proveout.devices.host import with_inductor
from proveout.devices.resident import Body, Resident
from proveout.program import Program, Result, Step
from proveout.types import DeviceSpec, Settings

Mode = Literal["inductor", "eager"]
Form = Literal["joined and folded", "joined", "folded", "apart", "inductor"]
"""Our kernels, with layer norms taken in by products or each by itself, and where attention and a feed-forward are
beside each other, with products of their own or shared ones; or the Program as it is, all Inductor's."""
OURS: tuple[Form, ...] = ("joined and folded", "joined", "folded", "apart")
FORMS: dict[Form, str] = {
    "joined and folded": "our kernels, branches joined, layer norms inside products",
    "joined": "our kernels, branches joined",
    "folded": "our kernels, layer norms inside products",
    "apart": "our kernels",
    "inductor": "Inductor's kernels",
}


class Cuda:
    """One GPU."""

    spec: DeviceSpec | None = None

    def __init__(self, mode: Mode = "inductor", index: int = 0) -> None:
        place = "cuda" if index == 0 else f"cuda:{index}"
        self.name = place if mode == "inductor" else f"{place}:{mode}"
        self.mode: Mode = mode
        self.place = torch.device("cuda", index)

    def load(self, program: Program, settings: Settings) -> OnCuda:
        check_chips(program, self.name, 1)
        return OnCuda(program, settings, self.place, self.mode)

    def close(self) -> None:
        """Nothing is held outside the loaded Programs."""


class OnCuda:
    """A Program on a GPU: weights and what is made of them stay there. Calls run the rewritten Program; single Steps,
    which only checks ask for, are those of the Program as it was given."""

    def __init__(
        self,
        program: Program,
        settings: Settings,
        place: torch.device,
        mode: Mode = "inductor",
        form: Form | None = None,
    ) -> None:
        """`form`: what runs; None leaves it to a measurement at the first call."""
        self.program, self.settings, self.place = program, settings, place
        self._wrap = with_inductor if mode == "inductor" else None
        self.form = form
        self.report = ""
        """What runs and how long it and its rivals took when they were measured, as a sentence."""
        self._weights: dict[str, torch.Tensor] = {}
        self._resident: _Kernels | None = None
        self._plain: Resident | None = None
        self._runner: Runner | None = None

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        self._weights.update({name: tensor.data for name, tensor in weights.items()})
        if self._resident is not None:
            self._resident.set_weights(weights)
        self._plain = self._runner = None  # a CUDA graph holds addresses of weights

    def drop_weights(self, names: Iterable[str]) -> None:
        gone = list(names)
        self._weights = {n: t for n, t in self._weights.items() if n not in gone}
        if self._resident is not None:
            self._resident.drop_weights(gone)
        self._plain = self._runner = None

    def holds_live(self, weight: str) -> bool:
        return self._resident is not None and self._resident.holds_live(weight)

    def kernels(self, inputs: Sequence[Any]) -> _Kernels:
        """The rewritten Program, made when the first inputs come."""
        if self._resident is None:
            here = [t.to(self.place) if isinstance(t, torch.Tensor) else t for t in inputs]
            if self.form is None:
                ours: Form = self._fastest("norms", OURS, here, None)
                alone = self._wrap is None or self.settings.weights != "same"
                self.form = ours if alone else self._fastest("program", ("inductor", ours), here, self._wrap)
            if self._resident is None:
                self._resident = self._made(self.form, self._wrap)
            self.report = self.report or f"runs {FORMS[self.form]}"
        return self._resident

    def _fastest(self, kind: str, forms: Sequence[Form], inputs: list[Any], wrap: Any) -> Form:
        """The form that takes least in a CUDA graph, measured once for a Program; of equal Programs the last one."""
        programs = [self._rewritten(form) for form in forms]
        forms = [form for i, form in enumerate(forms) if programs[i] not in programs[i + 1 :]]
        if len(forms) == 1:
            return forms[0]
        candidates: list[Candidate] = [(form, {}) for form in forms]
        key = f"{kind} {self.program.fingerprint} {self.settings.precision} {self.settings.weights} {' '.join(forms)}"
        by_form: dict[str, _Kernels] = {}

        def call(candidate: Candidate, _: int) -> Any:
            if candidate[0] not in by_form:
                by_form[candidate[0]] = self._made(candidate[0], wrap)  # type: ignore[arg-type]
            return by_form[candidate[0]].call(inputs)

        chosen: Form = best(key, candidates, call, ENOUGH_BYTES, calls=4)[0]  # type: ignore[assignment]
        outcomes = choices().outcomes(key)
        if outcomes:
            measured = ", ".join(f"{FORMS[form]} {outcomes[form]}" for form in forms if form in outcomes)
            self.report = f"runs {FORMS[chosen]} (measured: {measured})"
        if wrap is not None:
            self._resident = by_form.get(chosen)
        return chosen

    def _rewritten(self, form: Form) -> Program:
        program = self.program
        if form != "inductor":
            program = rewrite(program, "folded" in form, self.settings.weights, "joined" in form)
        return on_place(program, self.place)

    def _made(self, form: Form, wrap: Any) -> _Kernels:
        kernels = _Kernels(self._rewritten(form), wrap=wrap, place=self.place)
        kernels.tf32 = self.settings.precision == "tf32"
        kernels.set_weights(self._weights)
        if self.place.index is not None:  # the CPU has none
            torch.cuda.synchronize(self.place)  # kernels read weights before they wait for the kernel ahead
        return kernels

    def _runs(self, inputs: Sequence[Any]) -> Runner:
        if self._runner is None:
            self._runner = Runner(self.kernels(inputs).call, self.place, self.settings.trace, self.settings.queues)
        return self._runner

    def run(self, inputs: Sequence[Any]) -> Result:
        outputs = self._runs(inputs).run(inputs)
        return Result(outputs[: len(self.program.outputs)], 0, None, tuple(outputs[len(self.program.outputs) :]))

    def submit(self, inputs: Sequence[Any]) -> Pending:
        """A call that is not waited for; with two queues, transfers of one overlap the kernels of another."""
        return self._runs(inputs).submit(inputs)

    def captured(self, inputs: Sequence[Any]) -> Captured | None:
        """The CUDA graph of a call, with its buffers."""
        return self._runs(inputs).captured(inputs)

    def keep(self, state: Mapping[str, Any]) -> None:
        assert not state, "Programs for torch keep no state"

    def value(self, name: str) -> Any:
        return self._as_given().value(name)

    def run_step(self, step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
        moved = {n: values[n].to(self.place) if isinstance(values[n], torch.Tensor) else values[n] for n in step.uses}
        return self._as_given().run_step(step, moved)

    def _as_given(self) -> Resident:
        if self._plain is None:
            self._plain = Resident(on_place(self.program, self.place), place=self.place)
            self._plain.set_weights(self._weights)
        return self._plain


class _Kernels(Resident):
    """The body as a function of the inputs alone."""

    tf32 = False

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        with torch.no_grad(), rounding_to_tf32(self.tf32):
            if self._wrapped is None:
                operands = [*inputs, *self._tensors]
                self._wrapped = self._wrap(self._body, operands) if self._wrap is not None else self._body
            body: Body = self._wrapped
            return body(*inputs, *self._tensors)


@contextlib.contextmanager
def rounding_to_tf32(allowed: bool) -> Iterator[None]:
    """Products and convolutions of float32 as they are, or with operands rounded to TF32; PyTorch's own default is to
    round those of convolutions only."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def on_place(program: Program, place: torch.device) -> Program:
    """The Program with the tensors that its ATen Steps create made on the GPU."""

    def moved(step: Step) -> Step:
        if not step.on_host or step.attr("device") is None:
            return step
        return step.with_attrs(device=str(place))

    return replace(program, setup=tuple(map(moved, program.setup)), body=tuple(map(moved, program.body)))
