"""The original's `tools/stat_models.py`: its default models and flags, traced by `proveout trace`.

    python -m proveout.compat.torch_ttnn.stat_models --trace_orig --backward --profile

leaves raw dumps in `stat/raw` and, at once, the reports that the original's `tools/generate_report.py` makes of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from proveout.errors import ProveoutError, UsageError

MODELS = ("dinov2_vits14", "alexnet", "googlenet", "resnet18", "vgg11")
SOW2_LIST1 = (
    "detr_resnet50", "retinanet_resnet50_fpn", "mobilenet_v2", "mobilenet_v3_small", "vit_b_16", "resnet50",
    "regnet_x_16gf", "ssd300_vgg16", "ssdlite320_mobilenet_v3_large", "swin_v2_b",
)  # fmt: skip
IN_CORPORA = {"dinov2_vits14": "popular_on_huggingface/dinov2_small", "detr_resnet50": "transformers/detr"}
"""Models that the original loads from torch.hub, and the scripts of the corpora that build the same."""
SCRIPT = "from proveout.compat.torch_ttnn.torchvision_model import call\n\ncall({name!r})\n"
TRACE = "import sys; from proveout.cli import main; sys.exit(main(['trace', *sys.argv[1:]]))"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="stat_models", description="Trace the ops of the original's models.")
    options.add_argument("--out_folder", "-o", default="stat", help="where raw dumps and reports go")
    options.add_argument("--use_torch_ttnn", action="store_true", help="trace what the compiler makes of the graphs")
    options.add_argument("--trace_orig", action="store_true", help="trace the ATen graphs; the default")
    options.add_argument("--trace_modi", action="store_true", help="trace the compiled Programs")
    options.add_argument("--backward", action="store_true", help="also the backward graphs")
    options.add_argument("--graphviz", action="store_true", help="of --use_torch_ttnn; drawn with gen_graphviz instead")
    options.add_argument("--model_more", action="store_true", help="every model of torchvision")
    options.add_argument("--model_sow2_list1", action="store_true", help="the original's second list")
    options.add_argument("--profile", action="store_true", help="also a Chrome trace of each model")
    options.add_argument("--model", action="append", help="this one, of the lists; ours")
    return options


def models(args: argparse.Namespace) -> list[str]:
    """The list that the flags choose."""
    chosen = list(SOW2_LIST1 if args.model_sow2_list1 else MODELS)
    if args.model_more:
        import torchvision

        chosen = ["dinov2_vits14", *torchvision.models.list_models()]
    unknown = [name for name in args.model or () if name not in chosen]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is not in this list: {', '.join(chosen)}.")
    return args.model or chosen


def traces(args: argparse.Namespace) -> list[list[str]]:
    """The `proveout trace` commands: one for the graphs as captured, one for what is made of them, or both."""
    if args.graphviz and not args.use_torch_ttnn:
        raise UsageError(
            "--graphviz is of --use_torch_ttnn: give both, or draw with TorchTtnnOption(gen_graphviz=True)."
        )
    out = Path(args.out_folder)
    named = [IN_CORPORA.get(name) or str(_script(name, out)) for name in models(args)]
    more = [*(["--backward"] if args.backward else []), *(["--profile"] if args.profile else []), "-o", str(out)]
    compiled = args.trace_modi or (args.use_torch_ttnn and not args.trace_orig)
    kinds = [*([["--orig"]] if args.trace_orig or not compiled else []), *([[]] if compiled else [])]
    return [[*named, *kind, *more] for kind in kinds]


def _script(name: str, out: Path) -> Path:
    path = out / "scripts" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPT.format(name=name))
    return path


def main(argv: Sequence[str] | None = None) -> int:
    try:
        commands = traces(parser().parse_args(argv))
    except ProveoutError as error:
        print(f"stat_models: {error}", file=sys.stderr)
        return 2
    return max(subprocess.run([sys.executable, "-c", TRACE, *command]).returncode for command in commands)


if __name__ == "__main__":
    sys.exit(main())
