"""The first page: what there is to do, and what the store holds."""

from __future__ import annotations

import streamlit as st

from proveout.app import links, theme
from proveout.app.options import store
from proveout.app.tasks import TASKS
from proveout.app.theme import badge
from proveout.words import counted

ICONS = {
    "answers": ":material/quiz:",
    "text": ":material/edit_note:",
    "code": ":material/code:",
    "pictures": ":material/image:",
    "digits": ":material/draw:",
}


KINDS: tuple[tuple[str, theme.Tone, str], ...] = (
    ("measured", "measured", "a clock on this machine gave the time"),
    ("modelled", "modelled", "a model of the chip gave it; no chip was there"),
    ("modelled ×", "modelled", "a modelled time compared with a measured one: a prediction, not a race"),
)


def page() -> None:
    theme.head("Proveout", "Bring a PyTorch model to an accelerator: compile it, check it, time it, look inside.")
    st.markdown("### Your own model")
    with st.container(border=True):
        links.link("**Bring a script**", "own", icon=":material/upload_file:")
        st.caption("A script that calls your model, by path or upload: compile, check, time, look inside, bring it up.")
    st.markdown("### Try a task")
    cells = [cell for _ in range(2) for cell in st.columns(3)]
    for cell, task in zip(cells, TASKS.values()):
        with cell.container(border=True, height="stretch"):
            links.link(f"**{task.title}**", task.path, icon=ICONS[task.path])
            st.caption(task.does)
            theme.row(badge(task.model))
    with cells[-1].container(border=True, height="stretch"):
        links.link("**All results**", "models", icon=":material/view_list:")
        kept = store()
        count = sum(1 for _ in kept.folder.glob("*/*.json"))
        st.caption(
            f"{counted(count, 'result')} in {kept.folder}" if count else "Nothing here yet: each run adds a result."
        )
    st.markdown("### How to read the figures")
    for name, tone, meaning in KINDS:
        theme.row(badge(name, tone), f'<span class="po-dim">{meaning}</span>')
