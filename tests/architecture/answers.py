"""Keeps what the product answers today, so that a change to the house can be shown to change none of it.

    python tests/architecture/answers.py save FOLDER          Programs, modelled times, memory, device operations, PCC,
                                                              coverage with reasons, texts, reports and help pages
    python tests/architecture/answers.py save FOLDER --few    the same of fewer models: minutes on two cores
    python tests/architecture/answers.py compare OLD NEW      what differs, line by line; exit 1 when anything does

Measured times, dates and fingerprints are left out: they differ between two runs, or follow from what is compared.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    "diffusers/ddpm_cifar10",
    "diffusers/taesd",
    "graph_convolutions/gat",
    "graph_convolutions/gcn",
    "llm_layer/llama3_8b",
    "llm_layer/mixtral_8x7b",
    "popular_on_huggingface/bart_base",
    "timm/convnextv2_nano",
    "timm/levit_128s",
    "timm/mixer_s16",
    "timm/swin_tiny",
    "torch_hub/densenet121",
    "torch_hub/mobilenet_v2",
    "torch_hub/resnet18",
    "torch_hub/shufflenet_v2_x1_0",
    "torch_hub/yolov4",
    "torchvision/deeplabv3_resnet50",
    "torchvision/r3d_18",
    "torchvision/raft_small",
    "torchvision/ssd300_vgg16",
    "transformers/albert_base_v2",
    "transformers/bert",
    "transformers/clip",
    "transformers/codegen",
    "transformers/cvt",
    "transformers/deberta",
    "transformers/falcon",
    "transformers/fnet",
    "transformers/gpt2",
    "transformers/llama",
    "transformers/longformer",
    "transformers/mamba",
    "transformers/qwen3",
    "transformers/rwkv",
    "transformers/segformer",
    "transformers/swinv2",
    "transformers/t5",
    "transformers/vit",
    "transformers/wav2vec2",
    "transformers/whisper",
    "transformers/xlnet",
]
FEW = {
    "diffusers/taesd",
    "graph_convolutions/gcn",
    "timm/mixer_s16",
    "timm/swin_tiny",
    "torch_hub/mobilenet_v2",
    "torch_hub/resnet18",
    "torchvision/r3d_18",
    "transformers/bert",
    "transformers/codegen",
    "transformers/cvt",
    "transformers/fnet",
    "transformers/gpt2",
    "transformers/mamba",
    "transformers/qwen3",
    "transformers/t5",
}
FEW_MODELS = {"bert", "gpt2", "resnet18", "mnist_cnn", "llama", "whisper"}
VERBS = sorted(path.stem for path in (ROOT / "src/proveout/cli/verbs").glob("[a-z]*.py"))
SMALLEST = "corpora/selftest/two_layer.py"
TEXTS = {
    "ops": ("ops",),
    "devices": ("devices",),
    "models": ("models",),
    "discover": ("discover", "corpora/selftest"),
    "compile": ("compile", SMALLEST),
    "explain": ("explain", SMALLEST, "--device", "sim"),
    "tokens": ("tokens",),
    "error": ("check", "corpora/selftest/broken.py"),
    "unknown": ("benchmrk",),
}
"""What else is asked, and its answer kept as text."""
COMPARED = (
    "status",
    "reason",
    "failure",
    "coverage",
    "comparisons",
    "memory",
    "accuracy",
    "accuracy_eager",
    "fallbacks",
)
"""A Record's parts that do not depend on the machine or the moment."""


def save(folder: Path, few: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scripts = [str(ROOT / "corpora" / f"{name}.py") for name in SCRIPTS if not few or name in FEW]
    scripts += sorted(str(p) for p in (ROOT / "corpora/selftest").glob("[a-z]*.py"))
    cache = folder / "cache"
    os.environ["PROVEOUT_CACHE"] = str(cache)
    for verb in ["", *VERBS]:
        text = _run(*([verb] if verb else []), "--help")
        _write(folder / "help" / f"{verb or 'proveout'}.txt", text)
    _run("check", *scripts, "--small", "--device", "sim", "--jobs", "2")
    _records(cache, folder / "records")
    _run("perf", *scripts, "--small", "-o", str(folder / "perf"))
    for sheet in sorted((folder / "perf").rglob("*.csv")):
        _write(folder / "sheets" / sheet.relative_to(folder / "perf"), sheet.read_text())
    _write(folder / "texts" / "report.txt", _run("report", "--cache-dir", str(cache), "-o", str(folder / "report")))
    for name, arguments in TEXTS.items():
        _write(folder / "texts" / f"{name}.txt", _run(*arguments))
    _run("bringup", SMALLEST, "--device", "sim", "-o", str(folder / "bringup"))
    for path in sorted((folder / "bringup").rglob("*")):
        if path.suffix in (".md", ".py", ".html"):
            _write(folder / "texts" / "bringup" / path.relative_to(folder / "bringup"), path.read_text())
    _zoo(folder / "zoo", few)
    shutil.rmtree(folder / "bringup", ignore_errors=True)
    shutil.rmtree(folder / "perf", ignore_errors=True)


def _run(*arguments: str) -> str:
    source = {"PYTHONPATH": str(ROOT / "src")}
    environment = {**os.environ, **source, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "proveout", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(f"proveout {' '.join(arguments)[:70]}: exit {done.returncode}", flush=True)
    if done.returncode > 1:
        print(done.stderr[-2000:])
    return done.stdout


def _records(cache: Path, folder: Path) -> None:
    for path in sorted(cache.glob("*/*.json")):
        record = json.loads(path.read_text())
        if "job" not in record:
            continue
        workload = record["job"]["workload"]
        kept: dict[str, Any] = {name: record.get(name) for name in COMPARED}
        kept["modelled"] = [
            {k: t.get(k) for k in ("what", "device", "samples_ns")}
            for t in record["timings"]
            if t["kind"] == "modelled" and not t.get("parts")  # a sum with what a clock said
        ]
        kept["steps"] = [steps for _, steps in record.get("programs", ())]
        where = Path(workload["script"]).with_suffix("")
        name = f"{where.parent.name}.{workload['name']}".replace("/", "_")
        _write(folder / f"{name}.json", json.dumps(kept, indent=1, sort_keys=True))


def _zoo(folder: Path, few: bool) -> None:
    """The test models: Programs as text, times, memory and coverage."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/models")]
    import proveout
    from proveout import vision

    vision.serve()  # transformers imports torchvision
    import zoo  # type: ignore[import-not-found]

    models = {**getattr(zoo, "MODELS", {})} or {n: f for n, f in vars(zoo).items() if callable(f) and _makes_sample(f)}
    for name, build in models.items():
        if few and name not in FEW_MODELS:
            continue
        for precision in ("model", "bfloat16"):
            model, inputs = build()
            compiled = proveout.compile(model, inputs, device="sim", settings={"precision": precision})
            text = [str(program) for program in compiled.programs]
            facts = [f"{p.total_ns} ns modelled" for p in compiled.plans] + [
                repr(compiled.memory),
                repr(compiled.coverage),
            ]
            _write(folder / f"{name}.{precision}.txt", "\n".join([*text, *facts]))


def _makes_sample(function: Any) -> bool:
    return getattr(function, "__annotations__", {}).get("return") == "Sample"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def compare(old: Path, new: Path) -> int:
    differing = 0
    for part in ("help", "records", "sheets", "texts", "zoo"):
        before, after = (
            {MOMENT.sub("WHEN", str(p.relative_to(f / part))): p for p in sorted((f / part).rglob("*")) if p.is_file()}
            for f in (old, new)
        )
        for name in sorted(before.keys() | after.keys()):
            lines = list(_difference(before.get(name, old / part / name), after.get(name, new / part / name)))
            differing += bool(lines)
            if lines:
                print(f"--- {part}/{name}: {len(lines)} lines differ")
                print("\n".join(line[:220] for line in lines[:12]))
    print(f"{differing} answers differ")
    return 1 if differing else 0


def _difference(old: Path, new: Path) -> Iterator[str]:
    if old.suffix == ".json" and old.exists() and new.exists():
        yield from _unequal("", json.loads(_settled(old.read_text())), json.loads(_settled(new.read_text())))
        return
    texts = [_settled(path.read_text()).splitlines() if path.exists() else [f"(no {path.name})"] for path in (old, new)]
    lines = difflib.unified_diff(*texts, lineterm="", n=0)
    yield from (line for line in lines if line[:3] not in ("---", "+++") and line[:2] != "@@")


def _unequal(where: str, old: Any, new: Any) -> Iterator[str]:
    """What differs between two documents; a field that only the new one has is no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            yield from _unequal(f"{where}.{key}", old[key], new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new)):
            yield from _unequal(f"{where}[{index}]", *pair)
    elif isinstance(old, float) and isinstance(new, (int, float)):
        if not math.isclose(old, new, rel_tol=1e-6, abs_tol=1e-12):
            yield f"{where}: {old} -> {new}"
    elif old != new:
        yield f"{where}: {str(old)[:100]} -> {str(new)[:100]}"


MOMENT = re.compile(r"\d{4}[_-]\d\d[_-]\d\d[_T-]\d\d[_:-]?\d\d[_:-]?\d\d([+]00:00)?")
DRAWN = re.compile(r"/tmp/[\w.]+_\w{8}\.py")
"""Files that libraries write for each process."""
MEASURED = re.compile(r"(?<=Seconds)\s+[\d.]+|\d[\d.,]*(?= (\(measured\)|s\)|ms measured))|(?<=\()\d+ s(?=\))")


def _settled(text: str) -> str:
    """Without what names the folder or the moment that the answers were made in, and what a clock said."""
    text = MEASURED.sub("TIME", MOMENT.sub("WHEN", DRAWN.sub("FILE", text)))
    return re.sub(r"/[\w./-]*?/(corpora|src|tests)/", r"\1/", text)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "save" and sys.argv[3:] in ([], ["--few"]):
        save(Path(sys.argv[2]).resolve(), few="--few" in sys.argv)
    elif len(sys.argv) == 4 and sys.argv[1] == "compare":
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])))
    else:
        sys.exit(__doc__)
