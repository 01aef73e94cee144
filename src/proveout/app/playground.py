"""One page a task: ask on the left, see on the right. It only starts runs and reads their events."""

from __future__ import annotations

import streamlit as st

from proveout.app import results, theme
from proveout.app.children import Children
from proveout.app.inputs import request_form
from proveout.app.runs import Run
from proveout.app.tasks import TASKS, TaskRequest

REFRESH_S = 0.5


@st.cache_resource(show_spinner=False)
def _runs() -> Children[Run]:
    return Children()


def page(path: str) -> None:
    task = TASKS[path]
    theme.head(task.title, task.does)
    run = _current(path)
    left, right = st.columns([5, 7], gap="large")
    with left:
        request, place = request_form(task)
        with place:
            _buttons(path, request, run)
    with right:
        if run is None:
            theme.empty("Nothing has run yet", "The defaults work: press Run. The first run compiles the model.")
        elif run.running:
            _live(run.id)
        else:
            results.show(run)


def _buttons(path: str, request: TaskRequest | None, run: Run | None) -> None:
    busy = run is not None and run.running
    start, stop = st.columns(2)
    start.button(
        "Run",
        key=f"{path}-run",
        type="primary",
        icon=":material/play_arrow:",
        width="stretch",
        disabled=busy or request is None,
        on_click=_start,
        args=(path, request),
    )
    stop.button(
        "Stop",
        key=f"{path}-stop",
        icon=":material/stop:",
        width="stretch",
        disabled=not busy,
        on_click=_stop,
        args=(run,),
    )


def _start(path: str, request: TaskRequest) -> None:
    run = _runs().add(Run(request))
    st.session_state[f"{path}-run-id"] = run.id
    st.query_params["run"] = run.id


def _stop(run: Run) -> None:
    run.stop()
    run.wait(2.0)


def _current(path: str) -> Run | None:
    """This tab's run of a task; a link or a reloaded tab names it in the address."""
    run = _runs().get(st.session_state.get(f"{path}-run-id") or st.query_params.get("run", ""))
    return run if run is not None and run.request.task == path else None


@st.fragment(run_every=REFRESH_S)
def _live(run_id: str) -> None:
    """The right half while a run goes on; only this part is drawn again."""
    run = _runs().get(run_id)
    if run is None or not run.running:
        st.rerun(scope="app")
    else:
        results.show(run)
