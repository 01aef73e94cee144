"use strict";
const T = DATA.texts, dark = matchMedia("(prefers-color-scheme: dark)");
const OPS = DATA.ops.map((r, id) => ({ id, module: T[r[0]], aten: T[r[1]], state: T[r[2]], node: T[r[3]],
  shape: T[r[4]], reason: T[r[5]], source: T[r[6]], calls: T[r[7]], pcc: r[8], ns: r[9], uses: r[10], op: true }));

// The tree of modules. Each box holds its children in the order in which they first run.
const root = { name: "", path: "", kids: [], by: new Map(), open: true, op: false };
function childOf(box, name) {
  let kid = box.by.get(name);
  if (!kid) {
    const path = box.path ? box.path + "." + name : name;
    kid = { name, path, kids: [], by: new Map(), open: false, op: false, up: box, type: DATA.types[path] || "" };
    box.by.set(name, kid); box.kids.push(kid);
  }
  return kid;
}
for (const op of OPS) {
  let box = root;
  if (op.module) for (const part of op.module.split(".")) box = childOf(box, part);
  op.up = box; op.name = op.aten.replace("aten.", "").replace(".default", ""); box.kids.push(op);
}
(function tally(box) {
  box.count = 0; box.ns = 0; box.pcc = null; box.states = {};
  for (const kid of box.kids) {
    if (!kid.op) tally(kid);
    box.count += kid.op ? 1 : kid.count; box.ns += kid.ns || 0;
    if (kid.pcc != null) box.pcc = box.pcc == null ? kid.pcc : Math.min(box.pcc, kid.pcc);
    const states = kid.op ? { [kid.state]: 1 } : kid.states;
    for (const s in states) box.states[s] = (box.states[s] || 0) + states[s];
  }
  box.state = box.states.host ? "host" : box.states.converted ? "converted" : Object.keys(box.states)[0];
})(root);
const longest = OPS.reduce((most, op) => Math.max(most, op.ns || 0), 1);

// Edges live in the innermost module that holds both ends, between its own children.
function chain(item) { const line = []; for (let b = item; b; b = b.up) line.push(b); return line.reverse(); }
for (const op of OPS) for (const id of op.uses) {
  const a = chain(OPS[id]), b = chain(op);
  let i = 0; while (a[i] === b[i]) i++;
  const home = a[i - 1];
  if (!home.links) home.links = new Map();
  let into = home.links.get(b[i]); if (!into) home.links.set(b[i], into = new Set());
  into.add(a[i]);
}

const OPW = 190, OPH = 34, PAD = 14, HEAD = 26, GAPX = 16, GAPY = 22, LANE = 9;
function layout(box) {
  if (box.op) { box.w = OPW; box.h = OPH; return; }
  if (!box.open) { box.w = OPW + 20; box.h = 46; return; }
  if (box.fresh) return;
  const index = new Map(box.kids.map((kid, i) => [kid, i]));
  const rows = []; box.edges = [];
  for (const kid of box.kids) {
    layout(kid);
    let layer = 0;
    for (const from of (box.links && box.links.get(kid)) || []) {
      const back = index.get(from) >= index.get(kid);
      if (!back) layer = Math.max(layer, from.layer + 1);
      box.edges.push([from, kid, back]);  // and the lane that it goes down, if it passes a row
    }
    kid.layer = layer; (rows[layer] ||= []).push(kid);
  }
  let y = HEAD + PAD, widest = 0;
  const widths = [];
  for (const row of rows) {
    if (!row) { widths.push(0); continue; }
    // Children stand below the middle of what they read.
    for (const kid of row) {
      const from = [...((box.links && box.links.get(kid)) || [])].filter(f => f.x !== undefined && f.layer < kid.layer);
      kid.want = from.length ? from.reduce((s, f) => s + f.x + f.w / 2, 0) / from.length : index.get(kid) * 1e-6;
    }
    row.sort((a, b) => a.want - b.want);
    let x = 0; for (const kid of row) { kid.x = x; kid.y = y; x += kid.w + GAPX; }
    widths.push(x - GAPX); widest = Math.max(widest, x - GAPX);
    const tallest = row.reduce((most, kid) => Math.max(most, kid.h), 0);
    for (const kid of row) kid.below = y + tallest;
    y += tallest + GAPY;
  }
  rows.forEach((row, i) => { if (row) for (const kid of row) kid.x += PAD + (widest - widths[i]) / 2; });
  // An edge past a row goes down a lane of its own beside the boxes; lanes are used again where one ends.
  const lanes = [], far = box.edges.filter(([from, to, back]) => back || to.layer > from.layer + 1);
  far.sort((a, b) => Math.min(a[0].layer, a[1].layer) - Math.min(b[0].layer, b[1].layer));
  for (const edge of far) {
    const top = Math.min(edge[0].layer, edge[1].layer), end = Math.max(edge[0].layer, edge[1].layer);
    let lane = lanes.findIndex(until => until <= top); if (lane < 0) lane = lanes.length;
    lanes[lane] = end; edge[3] = widest + PAD + LANE * (lane + 1);
  }
  box.w = Math.max(widest + 2 * PAD + LANE * lanes.length, OPW); box.h = y - GAPY + PAD; box.fresh = true;
}
function stale(box) { for (let b = box; b; b = b.up) b.fresh = false; }

const canvas = document.getElementById("canvas"), pen = canvas.getContext("2d");
const colour = document.getElementById("colour"), about = document.getElementById("about");
const view = { x: 0, y: 0, k: 1 };
let chosen = null, found = new Set(), pending = false;
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let ink = {};
function theme() { for (const n of ["--page", "--card", "--ink", "--dim", "--line", "--edge", "--link"]) ink[n] = css(n); }
const STATES = { converted: ["#dbe9fb", "#18304f"], host: ["#fbd5d5", "#5a2323"], removed: ["#e6e9ee", "#2a313c"],
  input: ["#d8f0df", "#183a25"], output: ["#d8f0df", "#183a25"] };
function mix(share, from, to) { return `rgb(${from.map((f, i) => Math.round(f + (to[i] - f) * share)).join(",")})`; }
const scale = share => dark.matches ? mix(share, [24, 48, 79], [170, 60, 50]) : mix(share, [226, 238, 252], [240, 120, 100]);
function fill(item) {
  if (colour.value === "pcc") return item.pcc == null ? ink["--card"]
    : scale(Math.min(1, Math.max(0, (-Math.log10(Math.max(1e-8, 1 - item.pcc)) - 6) / -5)));
  if (colour.value === "ns") return item.ns ? scale(Math.min(1, item.ns / (item.op ? longest : Math.max(1, root.ns)))) : ink["--card"];
  return (STATES[item.state] || STATES.removed)[dark.matches ? 1 : 0];
}
function legend() {
  const keys = { state: [["#converted", "on the chip"], ["#host", "on the host"], ["#removed", "folded away"]],
    pcc: [[0, "1 − PCC ≤ 1e-6"], [.5, "3e-4"], [1, "0.1: far off"]], ns: [[0, "quick"], [1, "takes the most (modelled)"]] };
  document.getElementById("legend").replaceChildren(...keys[colour.value].map(([key, words]) => {
    const mark = document.createElement("i"), line = document.createElement("span");
    mark.style.background = typeof key === "string" ? STATES[key.slice(1)][dark.matches ? 1 : 0] : scale(key);
    line.append(mark, words); return line; }));
}
const time = ns => ns >= 1e6 ? (ns / 1e6).toPrecision(3) + " ms" : (ns / 1e3).toPrecision(3) + " µs";
function note(item) {
  if (colour.value === "ns") return item.ns ? time(item.ns) : "";
  if (colour.value === "pcc") return item.pcc == null ? "" : "PCC " + item.pcc.toFixed(5);
  return item.op ? item.shape : `${item.type} · ${item.count} ${item.count === 1 ? "op" : "ops"}` + (item.states.host ? `, ${item.states.host} host` : "");
}
function fit(text, room) {
  if (pen.measureText(text).width <= room) return text;
  let n = Math.max(1, Math.floor(text.length * room / pen.measureText(text).width) - 1);
  return text.slice(0, n) + "…";
}
function draw() {
  pending = false;
  const scale = devicePixelRatio, wide = canvas.clientWidth, tall = canvas.clientHeight;
  if (canvas.width !== wide * scale || canvas.height !== tall * scale) { canvas.width = wide * scale; canvas.height = tall * scale; }
  pen.setTransform(scale, 0, 0, scale, 0, 0); pen.fillStyle = ink["--page"]; pen.fillRect(0, 0, wide, tall);
  layout(root);
  pen.setTransform(scale * view.k, 0, 0, scale * view.k, scale * view.x, scale * view.y);
  const seen = { left: -view.x / view.k, top: -view.y / view.k, right: (wide - view.x) / view.k, bottom: (tall - view.y) / view.k };
  paint(root, 0, 0, seen, true);
}
function paint(item, x, y, seen, isRoot) {
  if (x > seen.right || y > seen.bottom || x + item.w < seen.left || y + item.h < seen.top) return;
  const small = item.h * view.k < 9;
  if (!isRoot) {
    pen.fillStyle = item.op || !item.open ? fill(item) : ink["--card"];
    pen.strokeStyle = item === chosen ? ink["--link"] : found.has(item) ? "#e08a00" : ink["--line"];
    pen.lineWidth = (item === chosen || found.has(item) ? 3 : 1) / Math.min(1, Math.max(.3, view.k));
    pen.beginPath(); pen.roundRect(x, y, item.w, item.h, item.op ? 6 : 9); pen.fill(); pen.stroke();
    if (!small && view.k > .22) {
      pen.fillStyle = ink["--ink"]; pen.font = (item.op ? "" : "600 ") + "12px system-ui, sans-serif"; pen.textBaseline = "top";
      const head = item.op ? item.name : (item.open ? "▾ " : "▸ ") + item.name + (item.open && item.type ? "  " + item.type : "");
      pen.fillText(fit(head, item.w - 16), x + 8, y + (item.op ? 4 : 7));
      if ((item.op || !item.open) && view.k > .4) {
        pen.fillStyle = ink["--dim"]; pen.font = "11px system-ui, sans-serif";
        pen.fillText(fit(note(item), item.w - 16), x + 8, y + (item.op ? 19 : 25));
      }
    }
  }
  if (item.op || !item.open || small) return;
  if (view.k > .06) {
    pen.strokeStyle = ink["--edge"]; pen.lineWidth = 1.2;
    for (const [from, to, back, lane] of item.edges) {
      const x1 = x + from.x + from.w / 2, y1 = y + from.y + from.h, x2 = x + to.x + to.w / 2, y2 = y + to.y;
      const right = lane === undefined ? Math.max(x1, x2) : x + lane;
      if (Math.min(y1, y2) > seen.bottom || Math.max(y1, y2) < seen.top || right < seen.left || Math.min(x1, x2) > seen.right) continue;
      pen.setLineDash(back ? [4, 4] : []); pen.beginPath(); pen.moveTo(x1, y1);
      const row = y + from.below + GAPY / 3, above = y2 - GAPY / 3;
      if (lane === undefined) {
        pen.lineTo(x1, row - GAPY / 3);
        pen.bezierCurveTo(x1, row + GAPY / 3, x2, y2 - GAPY / 2, x2, y2);
      } else {
        pen.arcTo(x1, row, right, row, 6); pen.arcTo(right, row, right, above, 6);
        pen.arcTo(right, above, x2, above, 6); pen.arcTo(x2, above, x2, y2, 6); pen.lineTo(x2, y2);
      }
      pen.stroke();
    }
    pen.setLineDash([]);
  }
  for (const kid of item.kids) paint(kid, x + kid.x, y + kid.y, seen, false);
}
function redraw() { if (!pending) { pending = true; requestAnimationFrame(draw); } }
function at(item, x, y) {
  if (item.op || !item.open) return item;
  for (const kid of item.kids) if (x >= kid.x && y >= kid.y && x <= kid.x + kid.w && y <= kid.y + kid.h) return at(kid, x - kid.x, y - kid.y);
  return item;
}
const hit = event => { const r = canvas.getBoundingClientRect();
  return at(root, (event.clientX - r.left - view.x) / view.k, (event.clientY - r.top - view.y) / view.k); };
function show(item) {
  chosen = item && item !== root ? item : null; about.replaceChildren();
  if (!chosen) return redraw();
  const title = document.createElement("b"), list = document.createElement("dl");
  title.textContent = item.op ? item.aten : item.path;
  const rows = item.op ? { module: item.module, gives: item.shape, status: { converted: "on the chip", host: "on the host", removed: "folded away" }[item.state] || item.state,
      why: item.reason, calls: item.calls, line: item.source } : { type: item.type, ops: item.count, "on the host": item.states.host || 0 };
  rows.PCC = item.pcc == null ? "" : item.pcc.toFixed(6) + (item.op ? "" : " (lowest inside)");
  rows["time (modelled)"] = item.ns ? time(item.ns) : "";
  for (const key in rows) if (rows[key] !== "") {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = key; dd.textContent = rows[key]; list.append(dt, dd); }
  about.append(title, list); redraw();
}
function toggle(item, open) { item.open = open ?? !item.open; stale(item); }
function place(item) { let x = 0, y = 0; for (let b = item; b && b !== root; b = b.up) { x += b.x; y += b.y; } return { x, y, w: item.w, h: item.h }; }
function zoomTo(box, most = 1.2) {
  const wide = canvas.clientWidth, tall = canvas.clientHeight;
  view.k = Math.min(most, (wide - 40) / box.w, (tall - 40) / box.h);
  view.x = (wide - box.w * view.k) / 2 - box.x * view.k; view.y = (tall - box.h * view.k) / 2 - box.y * view.k; redraw();
}
function whole() { layout(root); zoomTo({ x: 0, y: 0, w: root.w, h: root.h }); }
function start() { layout(root); const k = Math.min(1, (canvas.clientWidth - 40) / root.w);
  view.k = Math.max(k, .35); view.x = (canvas.clientWidth - root.w * view.k) / 2; view.y = 8; redraw(); }

let drag = null;
const fingers = new Map();
canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); fingers.set(e.pointerId, e); drag = { x: e.clientX, y: e.clientY, moved: false }; });
canvas.addEventListener("pointermove", e => {
  if (!fingers.has(e.pointerId)) return;
  const before = fingers.get(e.pointerId), others = [...fingers.values()].filter(f => f.pointerId !== e.pointerId);
  fingers.set(e.pointerId, e);
  if (others.length) { const o = others[0], was = Math.hypot(before.clientX - o.clientX, before.clientY - o.clientY), is = Math.hypot(e.clientX - o.clientX, e.clientY - o.clientY);
    zoom(is / Math.max(1, was), (e.clientX + o.clientX) / 2, (e.clientY + o.clientY) / 2); drag.moved = true; return; }
  view.x += e.clientX - before.clientX; view.y += e.clientY - before.clientY;
  if (Math.hypot(e.clientX - drag.x, e.clientY - drag.y) > 4) drag.moved = true;
  redraw();
});
canvas.addEventListener("pointerup", e => { fingers.delete(e.pointerId); if (drag && !drag.moved) { const item = hit(e);
  if (!item.op && item !== root) { const before = place(item); toggle(item); layout(root); const now = place(item);
    view.x += (before.x - now.x) * view.k; view.y += (before.y - now.y) * view.k; }
  show(item); } });
canvas.addEventListener("pointercancel", e => fingers.delete(e.pointerId));
function zoom(by, clientX, clientY) {
  const r = canvas.getBoundingClientRect(), x = clientX - r.left, y = clientY - r.top, k = Math.min(3, Math.max(.01, view.k * by));
  view.x = x - (x - view.x) * k / view.k; view.y = y - (y - view.y) * k / view.k; view.k = k; redraw();
}
canvas.addEventListener("wheel", e => { e.preventDefault(); if (e.ctrlKey || Math.abs(e.deltaY) >= 40 && !e.shiftKey) zoom(Math.exp(-e.deltaY / 500), e.clientX, e.clientY);
  else { view.x -= e.deltaX; view.y -= e.deltaY; redraw(); } }, { passive: false });
canvas.addEventListener("keydown", e => { const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[e.key];
  const r = canvas.getBoundingClientRect();
  if (step) { view.x += step[0]; view.y += step[1]; redraw(); }
  else if (e.key === "+" || e.key === "-") zoom(e.key === "+" ? 1.25 : .8, r.left + r.width / 2, r.top + r.height / 2); });
function all(open) { (function each(box) { for (const kid of box.kids) if (!kid.op) { kid.open = open; kid.fresh = false; each(kid); } })(root); root.fresh = false; }
document.getElementById("open").onclick = () => { all(true); whole(); };
document.getElementById("close").onclick = () => { all(false); start(); };
document.getElementById("fit").onclick = whole;
colour.onchange = () => { legend(); redraw(); };
document.getElementById("find").oninput = e => {
  const words = e.target.value.toLowerCase().trim(); found = new Set();
  if (words) {
    for (const op of OPS) if ([op.aten, op.module, op.node, op.source, op.reason].some(t => t.toLowerCase().includes(words))) found.add(op);
    const first = found.values().next().value;
    if (first) { for (let b = first.up; b && b !== root; b = b.up) if (!b.open) toggle(b, true); layout(root); zoomTo(place(first), .9); show(first); }
    for (const op of [...found]) for (let b = op.up; b && b !== root; b = b.up) if (!b.open) found.add(b);
  }
  redraw();
};
addEventListener("resize", redraw);
dark.addEventListener("change", () => { theme(); legend(); redraw(); });
theme(); legend();
if (root.kids.length === 1 && !root.kids[0].op) toggle(root.kids[0], true);
start();
