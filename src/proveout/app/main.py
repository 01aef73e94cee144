"""The app's entry: one table of pages. Streamlit runs this file again at every interaction."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from proveout.app import theme


@dataclass(frozen=True)
class Page:
    """One entry of the navigation; `module` holds `page()`, or `page(path)` where `takes_path`."""

    path: str
    title: str
    icon: str
    module: str
    takes_path: bool = False


SECTIONS: dict[str, tuple[Page, ...]] = {
    "": (
        Page("start", "Start", ":material/home:", "start"),
        Page("own", "Your model", ":material/upload_file:", "own"),
    ),
    "Playground": (
        Page("answers", "Question answering", ":material/quiz:", "playground", True),
        Page("text", "Text generation", ":material/edit_note:", "playground", True),
        Page("code", "Code generation", ":material/code:", "playground", True),
        Page("pictures", "Image classification", ":material/image:", "playground", True),
        Page("digits", "Digits", ":material/draw:", "playground", True),
    ),
    "Explorer": (
        Page("models", "Models", ":material/view_list:", "explorer_models"),
        Page("model", "One model", ":material/search_insights:", "explorer_model"),
        Page("generation", "Generation", ":material/speed:", "explorer_generation"),
        Page("compare", "Compare", ":material/compare_arrows:", "explorer_compare"),
        Page("bringup", "Bring-up", ":material/checklist:", "explorer_bringup"),
        Page("sweep", "Sweep", ":material/grid_view:", "explorer_sweep"),
    ),
}
ICON = str(Path(__file__).with_name("icon.png"))
"""A file: Streamlit's own icons are asked of a server outside when they serve as a page's."""
FIRST = "start"
"""What `/` shows."""


def main() -> None:
    st.set_page_config(page_title="Proveout", page_icon=ICON, layout="wide")
    theme.apply()
    _keep_typed()
    pages = {
        section: [
            st.Page(_shown(page), title=page.title, icon=page.icon, url_path=page.path, default=page.path == FIRST)
            for page in entries
        ]
        for section, entries in SECTIONS.items()
    }
    st.navigation(pages, expanded=True).run()


NOT_KEPT = ("-run", "-stop", "-start", "-file", "-canvas")
"""How keys end of widgets that hold nothing to keep, or that only a browser may fill."""


TYPED = "typed"
"""Where the session holds what was typed, beside the widgets' own values."""


def _keep_typed() -> None:
    """What was typed or chosen on a page stays while another is looked at: Streamlit forgets the widgets that a run of
    the script, or of a part of it that is drawn again by itself, did not draw."""
    paths = {page.path for entries in SECTIONS.values() for page in entries if page.takes_path} | {"own"}
    typed = st.session_state.setdefault(TYPED, {})
    for key in map(str, list(st.session_state)):
        if key.partition("-")[0] in paths and not key.endswith(NOT_KEPT):
            typed[key] = st.session_state[key]
    for key, value in typed.items():
        st.session_state[key] = value


def _shown(page: Page) -> Callable[[], None]:
    """A page's function; its module is imported only when it is looked at."""

    def show() -> None:
        name = f"proveout.app.{page.module}"
        if importlib.util.find_spec(name) is None:
            theme.empty(page.title, "This page is not part of this installation.", "Update: pip install -U proveout")
            return
        module = importlib.import_module(name)
        if page.takes_path:
            module.page(page.path)
        else:
            module.page()

    show.__name__ = page.path  # Streamlit tells pages apart by it
    return show


if __name__ == "__main__":
    main()
