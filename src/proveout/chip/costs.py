"""What the parameters of the time model are: each one's unit, what it means, and its guess before any table is seen.

A prediction is `launch + (memory⁴ + core⁴ + math⁴)^¼` in ns: bytes through DRAM and interleaved L1, against what the
busiest core moves, against what its engines compute. Every feature of a device operation has one parameter here; the
parameters of a family are fitted for each architecture where tables exist, and are these guesses where none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Group = Literal["launch", "memory", "core", "math"]
NORM = 4


@dataclass(frozen=True)
class Cost:
    """One parameter: what a unit of its feature costs."""

    guess: float
    unit: str
    meaning: str
    group: Group = "core"
    bounds: tuple[float, float] | None = None
    """What cannot be outside, whatever a table says."""


CYCLES = "cycles"
COSTS: dict[str, Cost] = {
    "launch": Cost(1.5, "1000 cycles", "start and end of a kernel", "launch", (0.2, 20.0)),
    "core_start": Cost(3.0, CYCLES, "each core more that takes part", "launch", (0.05, 60.0)),
    "call": Cost(40.0, "µs", "host time of one call, as tables timed by the host include it", "launch", (2.0, 200.0)),
    "dram": Cost(1.3, "× peak time", "bytes in DRAM", "memory", (1.0, 3.0)),
    "l1": Cost(1.0, "× DRAM's peak time", "bytes in L1 spread over all cores", "memory", (0.05, 3.0)),
    "conflict": Cost(
        0.3, "× peak time", "bytes that wait because cores meet at the same banks", "memory", (0.001, 3.0)
    ),
    "page": Cost(0.4, "ns", "a page of DRAM, over all banks", "memory", (0.01, 20.0)),
    # what a core moves: a tile or a row fetched over the network, waited for and sent on
    "tile": Cost(400.0, CYCLES, "a tile moved between the core and interleaved memory"),
    "byte": Cost(0.1, CYCLES, "a byte of such tiles"),
    "local_tile": Cost(80.0, CYCLES, "a tile that lies in the core's own L1"),
    "local_byte": Cost(0.03, CYCLES, "a byte copied inside L1"),
    "wide_tile": Cost(300.0, CYCLES, "a tile of 4-byte elements, beside the usual"),
    "row": Cost(200.0, CYCLES, "a row moved between the core and interleaved memory"),
    "row_byte": Cost(0.1, CYCLES, "a byte of such rows"),
    "l1_row": Cost(60.0, CYCLES, "a row moved to or from L1"),
    "split_row": Cost(500.0, CYCLES, "a row of which many cores read a part each: they meet at one bank"),
    "element": Cost(10.0, CYCLES, "an element moved alone by the core's processor"),
    "tile_row": Cost(200.0, CYCLES, "a row of tiles begun"),
    "padded_tile": Cost(1500.0, CYCLES, "a tile whose padding is written"),
    "padded_row": Cost(150.0, CYCLES, "a row whose end is padded"),
    "border_tile": Cost(600.0, CYCLES, "a tile with padding filled in"),
    "wide_border_tile": Cost(4000.0, CYCLES, "a border tile of 4-byte elements, beside the usual"),
    "regrouped_tile": Cost(800.0, CYCLES, "a tile taken apart or put together"),
    "tile_pair": Cost(700.0, CYCLES, "a pair of source and result tiles that share rows"),
    "gathered_pair": Cost(1300.0, CYCLES, "such a pair where rows grow longer: many sources for one result"),
    "row_piece": Cost(150.0, CYCLES, "a piece of a row copied from tile to tile"),
    "sent_piece": Cost(60.0, CYCLES, "a piece of a row written, not waited for"),
    "copied_byte": Cost(1.0, CYCLES, "a byte copied by the core's processor"),
    "tensor": Cost(100.0, CYCLES, "an operand more"),
    # vector arithmetic, per tile
    "sfpu": Cost(600.0, CYCLES, "a tile through the vector unit, of two operands"),
    **{
        f"sfpu/{name}": Cost(guess, CYCLES, f"vector arithmetic of a tile: {words}")
        for name, guess, words in (
            ("light", 60.0, "a few instructions"),
            ("root", 300.0, "one root or quotient"),
            ("exponential", 1000.0, "an exponential or logarithm"),
            ("double", 1400.0, "an exponential and a quotient"),
            ("long", 2500.0, "long polynomials"),
            ("power", 3000.0, "powers"),
        )
    },
    "fill_row": Cost(1400.0, CYCLES, "a tile of a row that software spreads over the tile"),
    "fill_column": Cost(4000.0, CYCLES, "a tile of a column or scalar that software spreads"),
    # windows
    "added_kilobyte": Cost(2.0, CYCLES, "a kB that a halo adds, over all cores"),
    "added_byte": Cost(0.05, CYCLES, "a byte that a halo adds to one core"),
    "gathered_row": Cost(2.0, CYCLES, "a pixel gathered for one position of a window"),
    "gathered_tile": Cost(50.0, CYCLES, "a tile made of gathered pixels"),
    "window_row": Cost(20.0, CYCLES, "a pixel of a pooled window"),
    "weight_tile": Cost(50.0, CYCLES, "a weight tile sent to the cores that need it"),
    "multicast_tile": Cost(50.0, CYCLES, "a tile sent to a row or column of cores"),
    # norms and reductions
    "line": Cost(300.0, CYCLES, "a line of tiles begun"),
    "line_tile": Cost(200.0, CYCLES, "a tile of a line that is normalised"),
    "phase_tile": Cost(80.0, CYCLES, "each fidelity phase of such a tile"),
    "gamma_tile": Cost(90.0, CYCLES, "its scale or shift"),
    "fp32_tile": Cost(110.0, CYCLES, "its sums in float32"),
    "mean_tile": Cost(500.0, CYCLES, "its mean, where that is taken off"),
    "reread_tile": Cost(400.0, CYCLES, "a tile read again because its line does not fit"),
    "backward_tile": Cost(200.0, CYCLES, "a tile of a backward pass"),
    "block_line": Cost(550.0, CYCLES, "a line of a sharded norm"),
    "block_tile": Cost(175.0, CYCLES, "a tile of a sharded norm or block"),
    "gathering": Cost(120.0, CYCLES, "the square root of the cores that exchange a line's sums"),
    "max_tile": Cost(250.0, CYCLES, "a tile of a maximum, beside the usual"),
    "searched_element": Cost(3.0, CYCLES, "an element compared by the core's processor"),
    "sorted_tile": Cost(5000.0, CYCLES, "a tile sorted"),
    "group": Cost(5000.0, CYCLES, "a group of a group norm"),
    "block_group": Cost(5000.0, CYCLES, "a group of a block-sharded group norm"),
    "group_row": Cost(300.0, CYCLES, "a row of tiles of one group"),
    # heads and caches
    "head": Cost(400.0, CYCLES, "a head cut out or put in"),
    "head_part": Cost(25.0, CYCLES, "16 elements of each head"),
    "dram_head": Cost(900.0, CYCLES, "a head cut out of DRAM"),
    "cache_head": Cost(800.0, CYCLES, "a head of a cache updated"),
    "cache_tile": Cost(60.0, CYCLES, "a tile of such a head"),
    "user_kilobyte": Cost(3.0, CYCLES, "a kB of all users' rows of a cache"),
    "rotated_tile": Cost(1500.0, CYCLES, "a tile rotated, from interleaved memory"),
    "token_tile": Cost(1000.0, CYCLES, "a tile rotated for one token"),
    "crowded_tile": Cost(10.0, CYCLES, "each other core that reads the same angles, for each tile"),
    "local_rotated_tile": Cost(900.0, CYCLES, "a tile rotated in place"),
    # attention
    "chunk_pair": Cost(3000.0, CYCLES, "a pair of query and key chunks"),
    "score_tile": Cost(700.0, CYCLES, "a tile of scores: exponential, maximum and sum"),
    "key_tile": Cost(100.0, CYCLES, "a tile of keys or values brought to a core"),
    "windowed": Cost(5000.0, CYCLES, "a sliding window"),
    "cores_per_head": Cost(500.0, CYCLES, "a core whose part of a head is merged"),
    # matrix products
    "product_phase": Cost(1.0, "× engine's time", "tile products at the engine's rate", "math", (0.05, 2.0)),
    "bank_phase": Cost(1.0, "× engine's time", "tile products of the DRAM banks' own cores", "math", (0.9, 1.12)),
    "tile_product": Cost(12.0, CYCLES, "a tile product beside the engine's own time", "math", (0.01, 400.0)),
    "fp32_product": Cost(6.0, CYCLES, "a tile product that accumulates in float32", "math", (0.01, 400.0)),
    "k_step": Cost(600.0, CYCLES, "a step along K", "math"),
    "read_step": Cost(500.0, CYCLES, "a step along K, both factors' blocks brought to where they are used"),
    "step_core": Cost(8.0, CYCLES, "each core that such a step is sent to"),
    "k_step_tile": Cost(10.0, CYCLES, "an output tile of a step along K: partial sums kept and taken up again", "math"),
    "subblock": Cost(20.0, CYCLES, "a subblock of a step", "math"),
    "in0_tile": Cost(60.0, CYCLES, "a tile of the left factor brought to a core"),
    "in0_byte": Cost(0.03, CYCLES, "a byte of such tiles"),
    "in1_tile": Cost(60.0, CYCLES, "a tile of the right factor brought to a core"),
    "in1_byte": Cost(0.03, CYCLES, "a byte of such tiles"),
    "local_in0_tile": Cost(20.0, CYCLES, "a tile of the left factor that lies in its core"),
    "out_tile": Cost(250.0, CYCLES, "an output tile", "math"),
    "dram_out_tile": Cost(300.0, CYCLES, "an output tile written to DRAM after the last step", "launch"),
    "batch": Cost(1000.0, CYCLES, "a product of a batch", "math"),
    "fused_light": Cost(60.0, CYCLES, "an output tile's fused activation of a few instructions", "launch"),
    "fused_silu": Cost(1200.0, CYCLES, "an output tile's fused SiLU or sigmoid", "launch"),
    "fused_gelu": Cost(400.0, CYCLES, "an output tile's fused GELU", "launch"),
    "row_block": Cost(140.0, CYCLES, "a tile of the right factor read again for a block of rows", "math"),
    # families without a table of their own
    "engine": Cost(2.0, "× engine's time", "arithmetic at the engine's rate"),
}
GUESSES: dict[str, float] = {name: cost.guess for name, cost in COSTS.items()}
GROUPS: dict[str, Group] = {name: cost.group for name, cost in COSTS.items()}


def predict(features: Mapping[str, float], costs: Mapping[str, float]) -> float:
    """Time in ns from features and what they cost."""
    spent = {"launch": 0.0, "memory": 0.0, "core": 0.0, "math": 0.0}
    for name, value in features.items():
        if value:
            spent[GROUPS[name]] += value * costs[name]
    memory, core, math = spent["memory"], spent["core"], spent["math"]
    return float(spent["launch"] + (memory**NORM + core**NORM + math**NORM) ** (1 / NORM))


def scaled(features: Mapping[str, Any], ghz: float) -> dict[str, float]:
    """Features in ns: cycles at the chip's clock; memory is in ns already."""
    return {
        name: value * 1000.0 if name == "call" else value if GROUPS[name] == "memory" else value / ghz
        for name, value in features.items()
        if value
    }
