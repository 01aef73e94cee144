"""The server's process: Streamlit's own, which reads the store while it starts, so that the first board is quick."""

from __future__ import annotations

import importlib
import sys
import threading

from proveout.app import data
from proveout.app.options import read_options
from proveout.store import Store

EARLY = ("pandas", "pyarrow", "plotly.graph_objects")
"""Libraries that the first page draws with. Imported before any thread starts: Plotly takes a half-imported pandas for
a whole one."""


def main() -> None:
    """`python -m proveout.app.serve run main.py [Streamlit's options] -- [ours]`, as Streamlit's own command has it."""
    from streamlit.web import cli

    for module in EARLY:
        importlib.import_module(module)
    ours = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    store = Store(read_options(ours).cache_dir)
    threading.Thread(target=data.board, args=(store.folder,), daemon=True).start()
    cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
