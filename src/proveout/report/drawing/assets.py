"""The look and the behaviour of the HTML report: one style sheet, one script, nothing to fetch."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #f5f6f8; --card: #fff; --line: #e2e5ea; --text: #1b2130; --dim: #5f6879; --link: #1f5fd0;
  --good: #14713d; --good-soft: #e0f4e8; --bad: #b42318; --bad-soft: #fdeae8;
  --warn: #8a5a00; --warn-soft: #fdf2d8;
  --measured: #0b7285; --measured-soft: #dcf3f6; --modelled: #6b3fd4; --modelled-soft: #ece5fd;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10131a; --card: #181c26; --line: #2b3140; --text: #e7eaf1; --dim: #9aa4b8; --link: #8ab4ff;
    --good: #6fd79a; --good-soft: #14351f; --bad: #ff9d92; --bad-soft: #421b18;
    --warn: #f0c46a; --warn-soft: #3b2d0c;
    --measured: #57c7d9; --measured-soft: #10363d; --modelled: #b79cff; --modelled-soft: #2c2150;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1500px; padding: 28px 28px 48px;
  background: var(--ground); color: var(--text);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { margin: 0; font-size: 26px; letter-spacing: -.02em; }
h2 { margin: 0 0 12px; font-size: 17px; letter-spacing: -.01em; }
h3 { margin: 18px 0 6px; font-size: 13px; color: var(--dim); font-weight: 600; }
header p { margin: 2px 0 20px; }
code, pre { font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { margin: 0; padding: 12px; background: var(--ground); border-radius: 8px; white-space: pre-wrap; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
.hint { color: var(--dim); font-size: 13px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 18px; margin: 0 0 18px; }
.warning { border-color: var(--bad); }
.warning ul { margin: 0; padding-left: 20px; overflow-wrap: anywhere; }

.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 0 0 18px; }
.tile { flex: 1 1 130px; padding: 14px 16px; background: var(--card); border: 1px solid var(--line);
  border-left: 4px solid var(--line); border-radius: 12px; }
.tile b { display: block; font-size: 24px; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { color: var(--dim); font-size: 13px; }
.tile.passed { border-left-color: var(--good); } .tile.failed { border-left-color: var(--bad); }
.tile.expected_failure, .tile.partial { border-left-color: var(--warn); }

.toolbar { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 0 0 12px; }
.toolbar input, .toolbar select { font: inherit; color: inherit; background: var(--ground); padding: 6px 10px;
  border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
.toolbar input { flex: 1 1 240px; }
.toolbar output { color: var(--dim); font-size: 13px; margin-left: auto; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }

.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 8px 7px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tbody tr:last-child td { border-bottom: 0; }
tbody tr:hover { background: color-mix(in srgb, var(--link) 6%, transparent); }
th { color: var(--dim); font-weight: 600; font-size: 12px; vertical-align: bottom; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort] button { color: var(--text); }
th[aria-sort=ascending] button::after { content: " ↑"; }
th[aria-sort=descending] button::after { content: " ↓"; }
.scroll td > code { white-space: nowrap; }
.scroll td > details[open] { min-width: 260px; }
.number { text-align: right; }
#models td { white-space: nowrap; }
#models td.col-model { white-space: normal; min-width: 200px; overflow-wrap: anywhere; }
td small { display: block; color: var(--dim); font-size: 12px; }
td.none { color: var(--dim); opacity: .7; }
#models td .badge { display: block; width: max-content; max-width: 92px; white-space: normal; margin: 2px 0 0 auto; }
@media (max-width: 1400px) {
  #models { font-size: 12px; }
  #models th, #models td { padding: 7px 4px; }
  #models td.col-model { min-width: 140px; }
}
.reason { overflow-wrap: anywhere; }
td .reason.failed, p.reason.failed { color: var(--bad); }
td .reason.expected_failure, p.reason.expected_failure { color: var(--warn); }
td .reason.partial, p.reason.partial { color: var(--warn); }
p.reason { margin: 12px 0 0; }

.badge, .status, .op { border-radius: 99px; font-size: 12px; padding: 1px 8px; white-space: nowrap; }
.badge { font-size: 11px; border: 1px solid; line-height: 1.4; padding: 0 7px; }
.badge.measured { color: var(--measured); background: var(--measured-soft); }
.badge.modelled { color: var(--modelled); background: var(--modelled-soft); border-style: dashed; }
.status.passed, .op.converted { color: var(--good); background: var(--good-soft); }
.status.compiled { color: var(--dim); background: var(--ground); }
.status.failed, .op.host { color: var(--bad); background: var(--bad-soft); }
.status.expected_failure, .status.partial { color: var(--warn); background: var(--warn-soft); }
.op.removed { color: var(--dim); background: var(--ground); }

.legend { display: flex; flex-wrap: wrap; gap: 6px 16px; align-items: center; margin: 0 0 10px; }
.key { font-size: 13px; }
.key { display: inline-flex; gap: 6px; align-items: center; }
figure svg { display: block; overflow: visible; }
figure text { fill: var(--text); font-size: 12px; } figure .dim, figure .value { fill: var(--dim); }
figure .grid { stroke: var(--line); }
.bar.measured { fill: var(--measured); }
.bar.modelled { fill: url(#hatch); stroke: var(--modelled); }
figure { margin: 0; }
#ops > details { margin-top: 14px; }
#details { margin-bottom: 26px; }
.bar.host { fill: var(--bad); }
.hatch-ground { fill: var(--modelled-soft); } .hatch-line { fill: var(--modelled); }

details > summary { cursor: pointer; display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: center;
  list-style: none; }
details > summary::-webkit-details-marker { display: none; }
details > summary::before { content: "▸"; color: var(--dim); }
details[open] > summary::before { content: "▾"; }
summary b { overflow-wrap: anywhere; }
.model { padding: 12px 18px; margin-bottom: 8px; scroll-margin-top: 12px; }
#closed { display: none; }
.many #closed { display: block; } .many .model:not([open]) { display: none; }
.many:has(.model[open]) #closed { display: none; }
.model:target { border-color: var(--link); }
dl { margin: 12px 0 0; } dt { color: var(--dim); font-size: 12px; } dd { margin: 0; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 8px 20px; }
.glossary dt { margin-top: 10px; color: var(--text); font-weight: 600; font-size: 13px; }
.glossary dd { color: var(--dim); }
footer { margin-top: 18px; }
[hidden] { display: none !important; }

#sort { display: none; }
@media (max-width: 760px) {
  body { padding: 18px 12px 32px; }
  .card { padding: 14px; }
  .tile { flex-basis: 40%; padding: 10px 12px; } .tile b { font-size: 20px; }
  #sort { display: inline-block; }
  .facts { grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); }
  .toolbar select { flex: 1 1 45%; }
  #models thead { display: none; }
  #models, #models tbody { display: block; }
  #models tr { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 14px; padding: 12px 0;
    border-bottom: 1px solid var(--line); }
  #models tr:last-child { border-bottom: 0; }
  #models td { display: block; padding: 0; border: 0; text-align: left; white-space: normal; }
  #models td::before { content: attr(data-label); display: block; color: var(--dim); font-size: 11px; }
  #models td.col-model { grid-column: 1 / -1; font-size: 15px; }
  #models td.col-model::before { content: none; }
  #models td.none { display: none; }
  #models td .badge { display: inline-block; margin: 0; }
}
@media print { .toolbar { display: none; } .card { break-inside: avoid; } }
"""

SCRIPT = """
"use strict";
const table = document.getElementById("models");
if (table) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const field = id => document.getElementById(id);
  const text = rows.map(row => (row.textContent + " " + row.dataset.find).toLowerCase());

  // Measured and modelled times are never ranked against each other: they sort as two groups.
  function value(row, index) {
    const cell = row.cells[index], raw = cell.dataset.sort;
    const number = raw === "" ? NaN : Number(raw);
    return [raw === "" ? 1 : 0, cell.dataset.group || "", Number.isNaN(number) ? raw.toLowerCase() : number];
  }
  function compare(a, b, index, sign) {
    const left = value(a, index), right = value(b, index);
    for (let i = 0; i < 3; i++) {
      if (left[i] === right[i]) continue;
      return (left[i] < right[i] ? -1 : 1) * (i === 2 ? sign : 1);
    }
    return rows.indexOf(a) - rows.indexOf(b);
  }
  function sort(index, direction) {
    heads.forEach(head => head.removeAttribute("aria-sort"));
    heads[index].setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    body.append(...[...rows].sort((a, b) => compare(a, b, index, sign)));
  }
  heads.forEach((head, index) => head.firstChild.addEventListener("click", () => {
    sort(index, head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending");
    field("sort").value = String(index);
  }));
  field("sort").addEventListener("change", event => {
    if (event.target.value !== "") sort(Number(event.target.value), "ascending");
  });

  function filter() {
    const words = field("find").value.toLowerCase().split(/\\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      const chosen = name => !field(name).value || row.dataset[name] === field(name).value;
      const fits = ["status", "device", "kind"].every(chosen) && words.every(word => text[i].includes(word));
      row.hidden = !fits;
      document.getElementById(row.dataset.model).hidden = !fits;
      shown += fits;
    });
    field("shown").textContent = (shown === rows.length ? shown : `${shown} of ${rows.length}`) + " shown";
  }
  ["find", "status", "device", "kind"].forEach(id => field(id).addEventListener("input", filter));
  filter();
}
// Pages are templates until they are opened; of many, only the open ones are listed.
function fill(page) {
  const inside = page.querySelector("template");
  if (inside) inside.replaceWith(inside.content);
}
document.addEventListener("toggle", event => { if (event.target.open) fill(event.target); }, true);
const pages = document.getElementById("details");
if (pages && pages.querySelectorAll(".model").length > 30) pages.classList.add("many");
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target || target.tagName !== "DETAILS") return;
  if (pages) pages.querySelectorAll(".many .model[open]").forEach(page => { page.open = page === target; });
  fill(target);
  target.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
document.addEventListener("click", event => {
  const link = event.target.closest("a[href^='#']");
  if (link && link.hash === location.hash) unfold();
});
unfold();
"""
