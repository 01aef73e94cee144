"""The left half of a task's page: its inputs with working defaults, the weights, the device and the settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st
from PIL import Image
from streamlit.delta_generator import DeltaGenerator

from proveout.app import datasets, pictures, weights
from proveout.app.canvas import canvas
from proveout.app.options import options
from proveout.app.tasks import TASKS, Inputs, Source, Task, TaskRequest
from proveout.devices.registry import devices, settings_for
from proveout.errors import UsageError
from proveout.types import Settings


def request_form(task: Task) -> tuple[TaskRequest | None, DeltaGenerator]:
    """What the widgets ask for now; None while an input is missing, with the reason on the page. The second is a place
    for buttons, where the eye is after the inputs."""
    offered = _offers(task)
    source: Source = st.session_state.get(f"{task.path}-source") or next(iter(offered))
    with st.container(border=True):
        inputs = _INPUTS[task.kind](task, source if source in offered else next(iter(offered)))
    buttons = st.container()
    with st.container(border=True):
        source = _weights(task, offered)
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
            settings = _settings(task)
    if inputs is None:
        return None, buttons
    chosen = options()
    request = replace(
        settings,
        inputs=inputs,
        source=source,
        iterations=int(iterations),
        baseline=baseline,
        weights=chosen.weights,
        cache_dir=chosen.cache_dir,
    )
    return request, buttons


# ------------------------------------------------------------------------------------------------------- the task's own


def _answer(task: Task, source: Source) -> Inputs | None:
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
    longest = weights.longest(task, source, options().weights)
    length = _count(
        "Sequence length",
        (16, longest, task.defaults.length),
        "answers-length",
        f"Question and context are padded to so many tokens; this model takes at most {longest:,}. Padding is masked.",
        step=16,
    )
    if not context.strip() or not question.strip():
        st.warning("Enter a context and a question.", icon=":material/edit:")
        return None
    count = _counter(task.path, source, options().weights)
    if count is not None:
        parts = count(question), count(context)
        whole = sum(parts) + MARKS
        st.caption(f"Question {parts[0]} + context {parts[1]} + {MARKS} marks: {whole:,} of {length:,} tokens.")
        if parts[0] + MARKS >= length:
            st.warning(f"The question alone takes {parts[0] + MARKS} tokens. {_longer(whole, longest)}")
            return None
        if whole > length:
            st.warning(f"The last {whole - length:,} tokens of the context are cut. {_longer(whole, longest)}")
    return Inputs(context=context, question=question, length=length)


MARKS = 3
"""Tokens that part question and context: [CLS], [SEP], [SEP]."""


def _generate(task: Task, source: Source) -> Inputs | None:
    st.session_state.setdefault(f"{task.path}-prompt", task.defaults.prompt)
    prompt = st.text_area("Prompt", key=f"{task.path}-prompt", height=130)
    longest = weights.longest(task, source, options().weights)
    left, right = st.columns(2)
    with left:
        length = _count(
            "Input length",
            (4, longest - 1, task.defaults.length),
            f"{task.path}-length",
            f"The prompt is padded to this many tokens. With the new ones, this model takes at most {longest:,}.",
            step=4,
        )
    with right:
        new = _count("New tokens", (1, longest - 4, task.defaults.new_tokens), f"{task.path}-new", "Tokens to add.")
    if not prompt.strip():
        st.warning("Enter a prompt.", icon=":material/edit:")
        return None
    if length + new > longest:
        st.warning(f"{length:,} + {new:,} tokens do not fit: this model takes {longest:,} in all.")
        return None
    count = _counter(task.path, source, options().weights)
    if count is not None:
        whole = count(prompt)
        st.caption(f"Prompt: {whole:,} of {length:,} tokens.")
        if whole > length:
            st.warning(f"The first {whole - length:,} tokens of the prompt are cut. {_longer(whole, longest - new)}")
    return Inputs(prompt=prompt, length=length, new_tokens=new)


def _longer(needed: int, longest: int) -> str:
    """What to do about a text that is too long."""
    if needed <= longest:
        return f"Set the length to {needed:,} or more to keep all of it."
    return f"This model takes at most {longest:,}: shorten the text."


def _count(label: str, range_: tuple[int, int, int], key: str, meaning: str, step: int = 1) -> int:
    """A number of tokens from least to most, with its usual value; one that is typed survives other weights, cut to
    what their model takes."""
    least, most, usual = range_
    st.session_state[key] = min(most, max(least, int(st.session_state.get(key, usual))))
    return int(st.number_input(label, least, most, step=step, key=key, help=meaning))


@st.cache_resource(show_spinner=False, max_entries=12)
def _counter(path: str, source: Source, folder: str | None) -> Callable[[str], int] | None:
    return weights.token_counter(TASKS[path], source, folder)


def _classify(task: Task, source: Source) -> Inputs | None:
    ways = ["Draw", "Choose", "Upload"] if task.path == "digits" else ["Choose", "Upload"]
    if test_set := datasets.test_set_name(task.path, datasets.folder_of(options().data)):
        ways.append(test_set)
    way = st.segmented_control("Image", ways, default="Choose", required=True, key=f"{task.path}-way")
    try:
        image = _from_test_set(task, source) if way == test_set else _WAYS[way](task)
    except UsageError as error:
        st.warning(str(error)[0].upper() + str(error)[1:], icon=":material/image:")
        return None
    if image is None:
        return None
    st.image(image.resize((128, 128), Image.Resampling.NEAREST), width=128)
    st.caption("What the model sees: 32 × 32 pixels.")
    return Inputs(image=pictures.encoded(image))


def _chosen(task: Task) -> Any:
    pictures_here = pictures.samples(task.path)
    name = st.pills(
        "Sample", list(pictures_here), default=next(iter(pictures_here)), required=True, key=f"{task.path}-sample"
    )
    return pictures.fitted(pictures.opened(pictures_here[name].read_bytes()))


def _uploaded(task: Task) -> Any:
    file = st.file_uploader("PNG or JPEG", type=["png", "jpg", "jpeg", "webp", "bmp"], key=f"{task.path}-file")
    if file is None:
        st.caption("Upload an image; it stays on this machine.")
        return None
    image = pictures.opened(file.getvalue())
    return pictures.digit(image) if task.path == "digits" else pictures.fitted(image)


def _from_test_set(task: Task, source: Source) -> Any:
    images = _test_set(task.path, options().data)
    index = st.number_input(
        f"Image of {len(images):,}", 1, len(images), 1, key=f"{task.path}-index", help=f"{images.name}'s test set."
    )
    label = images.labels[int(index) - 1]
    st.caption(f"{images.name} says: {label}. {_knows(task, source)}".rstrip())
    image = images.image(int(index) - 1)
    return pictures.digit(image) if task.path == "digits" else pictures.fitted(image)


def _knows(task: Task, source: Source) -> str:
    """Whether the chosen weights can have learnt the test set's classes."""
    if task.path == "pictures" and source == "small":
        return "The small model was trained on other classes: use your own weights (--weights)."
    return ""


@st.cache_resource(show_spinner=False, max_entries=2)
def _test_set(path: str, folder: str | None) -> datasets.TestSet:
    return datasets.read_test_set(path, datasets.folder_of(folder))


def _drawn(task: Task) -> Any:
    drawing = canvas(f"{task.path}-canvas")
    if not drawing:
        st.caption("Draw a digit with the mouse or a finger.")
        return None
    return pictures.digit(pictures.from_data_url(drawing))


_WAYS: dict[str, Callable[[Task], Any]] = {"Choose": _chosen, "Upload": _uploaded, "Draw": _drawn}
_INPUTS: dict[str, Callable[[Task, Source], Inputs | None]] = {
    "answer": _answer,
    "generate": _generate,
    "classify": _classify,
}


# ------------------------------------------------------------------------------------------------- weights and settings


@st.cache_data(ttl=600, show_spinner=False)
def _reachable() -> bool:
    return weights.hub_answers()


def _offers(task: Task) -> dict[Source, weights.Offer]:
    return {offer.source: offer for offer in weights.offers(task, options().weights, _reachable)}


def _weights(task: Task, sources: dict[Source, weights.Offer]) -> Any:
    source = st.radio(
        "Weights",
        list(sources),
        format_func=lambda name: sources[name].label,
        key=f"{task.path}-source",
        horizontal=True,
    )
    st.caption(sources[source].says)
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


def _settings(task: Task) -> TaskRequest:
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
    return TaskRequest(
        task.path,
        Inputs(),
        device=device,
        settings=settings_for(device, chosen),
        warmup=int(warmup),
        timeout_s=float(timeout),
        memory_gib=float(memory),
    )
