"""The left half of a task's page: its inputs with working defaults, the weights, the device and the settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st
from PIL import Image
from streamlit.delta_generator import DeltaGenerator

from proveout.app import pictures, weights
from proveout.app.canvas import canvas
from proveout.app.options import options
from proveout.app.tasks import Inputs, Request, Task
from proveout.devices.registry import devices, settings_for
from proveout.errors import UsageError
from proveout.types import Settings

LONGEST, MOST_NEW = 448, 128


def request_form(task: Task) -> tuple[Request | None, DeltaGenerator]:
    """What the widgets ask for now; None while an input is missing, with the reason on the page. The second is a place
    for buttons, where the eye is after the inputs."""
    with st.container(border=True):
        inputs = _INPUTS[task.kind](task)
    buttons = st.container()
    with st.container(border=True):
        source = _weights(task)
        iterations = st.number_input(
            "Iterations",
            1,
            1000,
            3,
            key=f"{task.path}-iterations",
            help="At least this many. Measuring goes on for up to 10 s, until there are enough samples.",
        )
        baseline = st.toggle(
            "Measure the CPU too",
            value=True,
            key=f"{task.path}-cpu",
            help="The same model, inputs and harness in eager mode on this machine, to compare with.",
        )
        with st.expander("Device and settings", icon=":material/tune:"):
            asked = _settings(task)
    if inputs is None:
        return None, buttons
    chosen = options()
    request = replace(
        asked,
        inputs=inputs,
        source=source,
        iterations=int(iterations),
        baseline=baseline,
        weights=chosen.weights,
        cache_dir=chosen.cache_dir,
    )
    return request, buttons


# ------------------------------------------------------------------------------------------------------- the task's own


def _answer(task: Task) -> Inputs | None:
    examples = json.loads((weights.SHIPPED / "answers" / "samples.json").read_text())
    first = {"context": task.defaults.context, "question": task.defaults.question}
    rows = [first, *(row for row in examples if row["question"] != first["question"])]  # labels must differ
    for name in ("context", "question"):
        st.session_state.setdefault(f"answers-{name}", first[name])

    def fill() -> None:
        row = rows[st.session_state["answers-example"]]
        st.session_state["answers-context"], st.session_state["answers-question"] = row["context"], row["question"]

    st.selectbox(
        "Example", range(len(rows)), format_func=lambda n: rows[n]["question"], key="answers-example", on_change=fill
    )
    context = st.text_area("Context", key="answers-context", height=130)
    question = st.text_input("Question", key="answers-question")
    length = st.number_input(
        "Sequence length",
        16,
        LONGEST,
        task.defaults.length,
        step=16,
        key="answers-length",
        help="Question and context are padded, or the context is cut, to this many tokens. Padding is masked.",
    )
    if not context.strip() or not question.strip():
        st.warning("Enter a context and a question.", icon=":material/edit:")
        return None
    return Inputs(context=context, question=question, length=int(length))


def _generate(task: Task) -> Inputs | None:
    prompt = st.text_area("Prompt", task.defaults.prompt, key=f"{task.path}-prompt", height=130)
    left, right = st.columns(2)
    length = left.number_input(
        "Input length",
        4,
        LONGEST - MOST_NEW,
        task.defaults.length,
        step=4,
        key=f"{task.path}-length",
        help="The prompt is padded, or its beginning is cut, to this many tokens. Padding is masked.",
    )
    new = right.number_input("New tokens", 1, MOST_NEW, task.defaults.new_tokens, key=f"{task.path}-new")
    if not prompt.strip():
        st.warning("Enter a prompt.", icon=":material/edit:")
        return None
    return Inputs(prompt=prompt, length=int(length), new_tokens=int(new))


def _classify(task: Task) -> Inputs | None:
    ways = ["Draw", "Choose", "Upload"] if task.path == "digits" else ["Choose", "Upload"]
    way = st.segmented_control("Image", ways, default="Choose", required=True, key=f"{task.path}-way")
    try:
        image = _WAYS[way](task)
    except UsageError as error:
        st.warning(str(error)[0].upper() + str(error)[1:], icon=":material/image:")
        return None
    if image is None:
        return None
    st.image(image.resize((128, 128), Image.Resampling.NEAREST), width=128)
    st.caption("What the model sees: 32 × 32 pixels.")
    return Inputs(image=pictures.encoded(image))


def _chosen(task: Task) -> Any:
    found = pictures.samples(task.path)
    name = st.pills("Sample", list(found), default=next(iter(found)), required=True, key=f"{task.path}-sample")
    return pictures.fitted(pictures.opened(found[name].read_bytes()))


def _uploaded(task: Task) -> Any:
    file = st.file_uploader("PNG or JPEG", type=["png", "jpg", "jpeg", "webp", "bmp"], key=f"{task.path}-file")
    if file is None:
        st.caption("Upload an image; it stays on this machine.")
        return None
    image = pictures.opened(file.getvalue())
    return pictures.digit(image) if task.path == "digits" else pictures.fitted(image)


def _drawn(task: Task) -> Any:
    drawing = canvas(f"{task.path}-canvas")
    if not drawing:
        st.caption("Draw a digit with the mouse or a finger.")
        return None
    return pictures.digit(pictures.from_data_url(drawing))


_WAYS: dict[str, Callable[[Task], Any]] = {"Choose": _chosen, "Upload": _uploaded, "Draw": _drawn}
_INPUTS: dict[str, Callable[[Task], Inputs | None]] = {
    "answer": _answer,
    "generate": _generate,
    "classify": _classify,
}


# ------------------------------------------------------------------------------------------------- weights and settings


@st.cache_data(ttl=600, show_spinner=False)
def _reachable() -> bool:
    return weights.hub_answers()


def _weights(task: Task) -> Any:
    found = {offer.source: offer for offer in weights.offers(task, options().weights, _reachable)}
    source = st.radio(
        "Weights",
        list(found),
        format_func=lambda name: found[name].label,
        key=f"{task.path}-source",
        horizontal=True,
    )
    st.caption(found[source].says)
    return source


FIELDS: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "precision": ("Precision", ("bfloat16", "model"), "What the device computes in; `model` keeps the model's own."),
    "math_fidelity": ("Math fidelity", (None, "LoFi", "HiFi2", "HiFi3", "HiFi4"), "Passes of the matrix unit."),
    "weights": ("Weight format", ("same", "bfloat16", "bfloat8_b", "bfloat4_b"), "Of matrix products."),
    "fallback": ("Ops without a kernel", ("host", "error"), "Run them on the host, or stop with an error."),
    "memory": ("Memory", ("auto", "dram"), "Let tensors lie in SRAM where they fit, or keep all in DRAM."),
    "numerics": ("Numerics", ("fast", "faithful"), "On sim: torch's kernels, or the chip's own rules."),
}
"""Settings that the page offers: their label, their values and what they mean."""


def _usual_first(name: str, values: tuple[Any, ...], usual: Settings) -> tuple[Any, ...]:
    """A field's values, with the one that the device starts with first: the page shows that."""
    first = getattr(usual, name)
    return (first, *(value for value in values if value != first))


def _settings(task: Task) -> Request:
    known = devices()
    usable = [name for name, info in known.items() if info.available]
    device = st.selectbox(
        "Device",
        usable,
        format_func=lambda name: f"{name} · {known[name].times if known[name].times != 'none' else 'no times'}",
        key=f"{task.path}-device",
        help="\n".join(f"- `{n}`: {i.description}" for n, i in known.items() if i.available),
    )
    st.caption(known[device].description)
    left, right = st.columns(2)
    chosen: dict[str, Any] = {}
    for number, (name, (label, values, meaning)) in enumerate(FIELDS.items()):
        values = _usual_first(name, values, settings_for(device))
        chosen[name] = (left, right)[number % 2].selectbox(
            label, values, key=f"{task.path}-{name}", help=meaning, format_func=lambda v: "default" if v is None else v
        )
    chosen["trace"] = left.toggle("Trace", key=f"{task.path}-trace", help="Replay recorded commands at every call.")
    warmup = right.number_input("Warm-up iterations", 0, 100, 1, key=f"{task.path}-warmup")
    timeout = left.number_input("Time limit (s)", 10, 7200, 600, step=60, key=f"{task.path}-timeout")
    memory = right.number_input(
        "Memory limit (GiB)",
        0.0,
        1024.0,
        0.0,
        step=1.0,
        key=f"{task.path}-memory-limit",
        help="For the worker process; 0 means 90 % of this machine's memory.",
    )
    return Request(
        task.path,
        Inputs(),
        device=device,
        settings=settings_for(device, chosen),
        warmup=int(warmup),
        timeout_s=float(timeout),
        memory_gib=float(memory),
    )
