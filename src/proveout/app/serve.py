"""The server's process: Streamlit's own, which reads the store while it starts, so that the first board is quick."""

from __future__ import annotations

import importlib
import signal
import sys
import threading

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until Streamlit takes it, Ctrl-C ends a start at once

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
    _refuse_foreign_hosts()
    ours = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    store = Store(read_options(ours).cache_dir)
    threading.Thread(target=data.board, args=(store.folder,), daemon=True).start()
    cli.main(prog_name="streamlit")


def _refuse_foreign_hosts() -> None:
    """Pages, downloads and uploads too answer only who calls this machine by its own names: Streamlit itself asks that
    of a page's lasting connection alone."""
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from streamlit import config
    from streamlit.web.server.starlette import starlette_app

    theirs = starlette_app.create_streamlit_middleware

    def with_ours() -> list[Middleware]:
        hosts = config.get_option("server.allowedHosts")
        return [Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False), *theirs()]

    starlette_app.create_streamlit_middleware = with_ours


if __name__ == "__main__":
    main()
