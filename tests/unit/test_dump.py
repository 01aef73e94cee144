"""Per-pass dumps and drawings: what each pass did, as text, as a diff and as SVG."""

from __future__ import annotations

import itertools
import json
import re
import time
import xml.etree.ElementTree as ET

import pytest
import torch
from torch import nn

import proveout
from proveout.coding import from_json
from proveout.compiler.dump import DumpFolder, program_nodes
from proveout.compiler.graph_passes import GRAPH_PASSES
from proveout.report.drawing.graph import HEIGHT, WIDTH, draw
from proveout.report.dump import write_pages
from proveout.types import GraphNode

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def fresh(without_rows):
    torch._dynamo.reset()
    torch.manual_seed(0)
    without_rows("aten.lgamma.default", "aten.special_i0e.default")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return torch.special.i0e(self.linear(x)) * (torch.arange(64) + 1)


@pytest.fixture
def dumped(tmp_path):
    compiled = proveout.compile(Small().eval(), torch.randn(32, 64), dry_run=True, dump=tmp_path)
    write_pages(tmp_path)
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    return compiled, folder


@pytest.mark.slow
def test_every_pass_leaves_a_numbered_text_a_diff_and_a_drawing(dumped):
    _, folder = dumped
    stages = [p.stem for p in sorted(folder.glob("*.txt"))]
    names = ["capture", *(p.__name__.replace("_", "-") for p in GRAPH_PASSES), "lower"]
    assert stages[: len(names)] == [f"{i:02}-{name}" for i, name in enumerate(names)]
    assert stages[-1].endswith("-evict")
    for kind in ("txt", "svg", "json"):
        assert [p.stem for p in sorted(folder.glob(f"*.{kind}"))] == stages
    assert [p.stem for p in sorted(folder.glob("*.diff"))] == stages[1:]


def test_the_last_text_is_the_program_itself(dumped):
    compiled, folder = dumped
    assert max(folder.glob("*.txt")).read_text() == f"{compiled.program}\n"


def test_a_second_dump_leaves_nothing_of_a_longer_first_one(tmp_path):
    dump = DumpFolder(tmp_path)
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "77-gone.txt").write_text("")
    (tmp_path / "graph" / "notes.txt").write_text("mine")
    dump.graph("graph", frozenset())
    assert [p.name for p in (tmp_path / "graph").iterdir()] == ["notes.txt"]


def test_a_diff_shows_what_its_pass_changed(dumped):
    _, folder = dumped
    (folded,) = folder.glob("*-fold-constants.diff")
    gone = [line for line in folded.read_text().splitlines() if line.startswith("-%")]
    assert any("aten.arange" in line for line in gone)
    (hoisted,) = folder.glob("*-hoist.diff")
    assert "ttnn.from_torch" in hoisted.read_text()


def test_the_page_lists_passes_with_counts_changes_and_links(dumped):
    _, folder = dumped
    page = (folder.parent / "index.html").read_text()
    for link in re.findall(r'href="([^"]+)"', page):
        assert (folder.parent / link).exists()
    row = next(line for line in page.splitlines() if "<td>fold constants</td>" in line)
    assert "-1 aten.arange.default" in row


def test_compiling_without_dump_writes_and_says_nothing(tmp_path, capfd, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    proveout.compile(Small().eval(), torch.randn(32, 64), dry_run=True)
    assert list(here.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_each_graph_and_each_size_gets_a_folder(tmp_path):
    class Broken(nn.Module):
        def forward(self, x):
            x = torch.relu(x)
            torch._dynamo.graph_break()
            return torch.relu(x) + 1

    proveout.compile(Broken().eval(), torch.randn(4, 8), dry_run=True, dump=tmp_path)
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 2


def test_boxes_say_where_they_run_and_where_they_come_from(dumped):
    compiled, _ = dumped
    nodes = {node.label: node for node in program_nodes(compiled.program)}
    assert nodes["aten.special_i0e.default"].place == "host"
    assert nodes["ttnn.to_torch"].place == "transfer"
    assert nodes["ttnn.linear"].place == "device"
    assert "ttnn.deallocate" not in nodes
    title = nodes["ttnn.linear"].title
    assert "in linear" in title
    assert f"at {__file__}" in title
    assert nodes["ttnn.linear"].note == "f32[32,64] tile l1"
    assert nodes["output"].uses


# ------------------------------------------------------------------------------------------------ drawings


def boxes(svg):
    """Corner of each box by its name."""
    found = {}
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        if "id" in group.attrib and rect is not None:
            found[group.attrib["id"]] = (float(rect.attrib["x"]), float(rect.attrib["y"]))
    return found


def chain(length, skip=0):
    nodes = [GraphNode("n0", "in", "input")]
    for i in range(1, length):
        uses = {f"n{i - 1}", *([f"n{i - skip}"] if skip and i >= skip else [])}
        nodes.append(GraphNode(f"n{i}", "ttnn.add", "device", "f32[4]", uses=tuple(sorted(uses))))
    return nodes


def test_boxes_do_not_overlap_and_results_lie_below_what_they_use(dumped):
    _, folder = dumped
    for path in folder.glob("*.json"):
        nodes = [from_json(GraphNode, n) for n in json.loads(path.read_text())]
        placed = boxes(draw(nodes))
        assert set(placed) == {n.name for n in nodes}
        for node in nodes:
            assert all(placed[node.name][1] > placed[used][1] for used in node.uses)
        for (x, y), (u, v) in itertools.combinations(placed.values(), 2):
            assert abs(x - u) >= WIDTH or abs(y - v) >= HEIGHT


def test_a_chain_is_drawn_straight():
    assert len({x for x, _ in boxes(draw(chain(12))).values()}) == 1


def test_an_edge_over_many_layers_is_named_at_its_reader():
    nodes = chain(60)
    nodes.append(GraphNode("end", "ttnn.add", "device", uses=("n59", "n1")))
    svg = draw(nodes)
    assert "↑ n1<" in svg
    assert 'href="#n1"' in svg
    assert len(re.findall("<path", svg)) == 60


def test_a_weights_way_is_drawn_beside_its_first_reader_not_at_the_top():
    weight = [
        GraphNode("w", "ttnn.from_torch", "transfer"),
        GraphNode("w.2", "ttnn.permute", "layout", uses=("w",)),
    ]
    nodes = [*chain(20), *weight, GraphNode("last", "ttnn.linear", "device", uses=("n19", "w.2"))]
    placed = boxes(draw(nodes))
    assert placed["w.2"][1] == placed["n19"][1]
    assert placed["w"][1] == placed["n18"][1]


def test_hostile_names_stay_text():
    svg = draw([GraphNode('a"<b>', "<script>", "device", "&", "</svg>")], "<title>")
    assert ET.fromstring(svg).findtext(f"{SVG}text") == "<title>"
    assert "<script>" not in svg


@pytest.mark.slow
def test_two_thousand_boxes_are_drawn_in_reasonable_time():
    started = time.process_time()
    svg = draw(chain(2000, skip=7))
    wide = [GraphNode("x", "in", "input"), *(GraphNode(f"y{i}", "op", "device", uses=("x",)) for i in range(2000))]
    draw(wide)
    assert time.process_time() - started < 60  # a layout that looks at all pairs takes many minutes
    assert svg.count("<rect") == 2000 + 1
