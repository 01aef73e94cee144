"""Links between the app's pages; every one is an address that can be kept and sent."""

from __future__ import annotations

from typing import Any

import streamlit as st

BOUND: dict[str, Any] = {"bind": "query-params"}
"""For a widget with a key: the address has its value under that name, and sets it."""


def link(label: str, path: str, *, icon: str | None = None, **query: str) -> None:
    """A link that stays in this session."""
    st.page_link(_page(path), label=label, icon=icon, query_params=query)


def go(path: str, **query: str) -> None:
    """Open another page now."""
    st.switch_page(_page(path), query_params=query)


def given(name: str) -> str:
    """A query parameter of this page's address; empty where there is none."""
    return str(st.query_params.get(name, ""))


def _page(path: str) -> Any:
    # Streamlit knows a page by its path; the function that runs is the one in the navigation's table.
    return st.Page(_nothing, url_path=path, title=path)


def _nothing() -> None:
    """Never runs: stands for a page of the navigation."""
