"""The server's process: Streamlit's own, which reads the store while it starts, so that the first board is quick."""

from __future__ import annotations

import importlib
import sys
import threading

from proveout.app.options import read_options
from proveout.store import Store


def main() -> None:
    """`python -m proveout.app.serve run main.py [Streamlit's options] -- [ours]`, as Streamlit's own command has it."""
    ours = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    threading.Thread(target=_read_ahead, args=(Store(read_options(ours).cache_dir),), daemon=True).start()
    from streamlit.web import cli

    cli.main(prog_name="streamlit")


def _read_ahead(store: Store) -> None:
    """What the explorer's first page needs: the Records and the libraries that draw it."""
    from proveout.app import data

    data.board(store.folder)
    for module in ("pandas", "pyarrow", "plotly.graph_objects"):
        importlib.import_module(module)


if __name__ == "__main__":
    main()
