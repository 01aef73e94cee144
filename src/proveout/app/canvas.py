"""A square to draw a digit in: a Streamlit component of a few lines, nothing to fetch."""

from __future__ import annotations

import streamlit as st

_HTML = """
<canvas width="256" height="256" aria-label="Draw a digit here"></canvas>
<button type="button">Clear</button>
"""
_CSS = """
canvas { display: block; width: 256px; height: 256px; max-width: 100%; background: #000; border-radius: 10px;
  touch-action: none; cursor: crosshair; border: 1px solid var(--st-border-color, #8884); }
button { margin-top: 8px; padding: 4px 14px; border-radius: 8px; border: 1px solid var(--st-border-color, #8884);
  background: transparent; color: var(--st-text-color, inherit); font: inherit; font-size: 14px; cursor: pointer; }
"""
_JS = """
export default function({ parentElement, setStateValue }) {
  const canvas = parentElement.querySelector("canvas");
  if (canvas.dataset.ready) return;
  canvas.dataset.ready = "yes";
  const pen = canvas.getContext("2d");
  const clear = () => { pen.fillStyle = "#000"; pen.fillRect(0, 0, 256, 256); };
  clear();
  pen.lineWidth = 22; pen.lineCap = pen.lineJoin = "round"; pen.strokeStyle = "#fff";
  let last = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * 256 / box.width, (event.clientY - box.top) * 256 / box.height];
  };
  const line = (to) => { pen.beginPath(); pen.moveTo(...last); pen.lineTo(...to); pen.stroke(); last = to; };
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); last = at(event); line(last); };
  canvas.onpointermove = (event) => { if (last) line(at(event)); };
  canvas.onpointerup = () => { last = null; setStateValue("drawing", canvas.toDataURL("image/png")); };
  parentElement.querySelector("button").onclick = () => { clear(); setStateValue("drawing", ""); };
}
"""
_mount = st.components.v2.component("proveout_canvas", html=_HTML, css=_CSS, js=_JS)


def canvas(key: str) -> str:
    """The drawing as a data URL; empty while there is none."""
    result = _mount(key=key, on_drawing_change=lambda: None)
    return result.drawing or ""
