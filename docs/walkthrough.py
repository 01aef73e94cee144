"""Makes docs/walkthrough.md, and the example of docs/quickstart.md: `python docs/walkthrough.py [quickstart]`. Every
command is run, and what it prints stands there.

From a fresh clone to the bring-up of one's own model, from the terminal and from the browser. Pictures are made by
`docs/images/make.py app-own app-own-results explorer-bringup`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODEL = '''"""My own model, as it runs today."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    """A small convolutional network with an attention layer on top."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 128, 4, stride=4)
        self.attention = nn.MultiheadAttention(128, 4, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = torch.relu(self.conv(image)).flatten(2).transpose(1, 2)  # [batch, patches, 128]
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return {"classes": self.head(mixed.mean(1)), "features": mixed}


model = Net().eval()
with torch.no_grad():
    model(torch.randn(8, 3, 64, 64))
'''
MOST_LINES = 40


def run(command: str, folder: Path) -> str:
    """What a person would see who types a command in a 100-column terminal: stdout, then stderr."""
    words = [sys.executable, "-P", "-m", "proveout", *shlex.split(command)[1:]]
    environment = os.environ | {"COLUMNS": "100", "PROVEOUT_CACHE": str(folder.parent / "cache")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    text = f"{done.stderr.rstrip()}\n{done.stdout.strip(chr(10))}".strip("\n")
    if done.returncode == 2:
        raise SystemExit(f"$ {command}\n{text}")
    text = re.sub(rf"{re.escape(str(folder))}/?", "", text).replace(f"{folder.parent}/", "../")
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more lines"]
    print(f"$ {command}   (exit {done.returncode})", flush=True)
    return "\n".join(["```", f"$ {command}", *lines, "```"])


def quickstart() -> None:
    """Fill in what the quickstart's own script gives."""
    page = HERE / "quickstart.md"
    text = page.read_text()
    script = text.partition("```python\n")[2].partition("```")[0]
    with tempfile.TemporaryDirectory(prefix="quickstart-") as scratch:
        folder = Path(scratch, "project")  # beside the cache, which no sandboxed script may reach
        folder.mkdir()
        (folder / "mlp.py").write_text(script)
        output = run("proveout mlp.py", folder)
    before, _, rest = text.partition(f"{BEGIN}\n")
    page.write_text(f"{before}{BEGIN}\n{output}\n{END}{rest.partition(END)[2]}")
    print(page)


BEGIN, END = "<!-- made by docs/walkthrough.py -->", "<!-- /made -->"


def main() -> None:
    quickstart()
    if sys.argv[1:] == ["quickstart"]:
        return
    with tempfile.TemporaryDirectory(prefix="walkthrough-") as scratch:
        folder = Path(scratch, "project")
        folder.mkdir()
        (folder / "net.py").write_text(MODEL)
        outputs = {
            name: run(command, folder)
            for name, command in {
                "discover": "proveout discover net.py --sandbox --no-network",
                "benchmark": "proveout benchmark net.py --duration 1",
                "compile": "proveout compile --dry-run net.py",
                "bringup": "proveout bringup net.py -o bringup/net",
                "report": "proveout report -o report",
            }.items()
        }
        code = (folder / "bringup" / "net" / "ttnn_model.py").read_text()
    attention = re.search(r"class MultiheadAttention.*?(?=\n\n\nclass )", code, re.DOTALL)
    if attention is None:
        raise SystemExit("the bring-up wrote no class MultiheadAttention: look at what it printed")
    (HERE / "walkthrough.md").write_text(PAGE.format(model=MODEL.rstrip(), attention=attention[0], **outputs))
    print(HERE / "walkthrough.md")


PAGE = """# A walk from a fresh clone to one's own model

Made by `python docs/walkthrough.py`: every command below was run, and its output is shown under it. Measured times are
those of the machine on which this page was made. The first part is in the terminal, the second in the browser; take
either.

## Install

```
$ git clone <this repository> proveout && cd proveout
$ make demo                 # installs into .venv and brings up a few models: some minutes
$ . .venv/bin/activate
```

## A model of one's own

Any script that builds a model and calls it will do; it needs no change for Proveout. This one is `net.py`: a convolution,
`nn.MultiheadAttention` and a dict of outputs.

```python
{model}
```

### What does it call?

The script runs in a process of its own. Here it can write only below its folder and has no network.

{discover}

### Does it compile, is it right, how fast is it?

{benchmark}

`measured` times were taken by a clock on this machine; `modelled` times are predicted by the embedded model of the chip.

### What converts, what stays on the host, and why?

{compile}

### Bring it up

Thirteen stages into one folder: a card, reference outputs, the graph, op tests, missing ops, accuracy end to end, the
optimised settings, the optimised model as ttnn code with tests of each module, a perf sheet, trace and queues,
decoding (for language models), and a report.

{bringup}

`bringup/net/report.html` opens offline. Run the same command again to resume a bring-up that was stopped.
`bringup/net/ttnn_model.py` is the optimised model as ttnn code, with a class for each module. This is its attention:

```python
{attention}
```

### Everything so far

{report}

## The same from the browser

```
$ proveout app
```

**Your model** takes the same script, by path or upload, and shows the limits under which it runs. *Find models* lists the models it
calls.

![A script is named, its limits are shown](images/app-own.png)

*Compile, check and time* gives the same results as `proveout benchmark`, with links to the explorer, which shows memory,
performance and graph. Under each button is the command that does the same in a terminal.

![Its models, checked and timed](images/app-own-results.png)

*Start the bring-up* runs all stages; the page **Bring-up** follows them.

![A bring-up, stage by stage](images/explorer-bringup.png)
"""

if __name__ == "__main__":
    main()
