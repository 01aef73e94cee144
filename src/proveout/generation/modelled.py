"""A compiled decoder's figures on a modelled chip: times with their intervals, memory, and what fits."""

from __future__ import annotations

from typing import Any

from proveout import clock
from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN
from proveout.devices.registry import find
from proveout.errors import UsageError
from proveout.generation.generator import Generator
from proveout.generation.phase import Phase
from proveout.generation.speed import SpeedRow
from proveout.generation.state_space import StateShape
from proveout.types import TILE, Settings, Timing


def modelled_row(generator: Generator, prefill: Phase, length: int, device: str, settings: Settings) -> SpeedRow:
    """One prompt of this length, and a step of all users over a full cache."""
    batch, max_length = generator.batch, generator.max_length
    decode = generator.decode_phase
    first, later = _modelled(FIRST_TOKEN, prefill, device), _modelled(PER_TOKEN, decode, device)
    if later is None:
        atens = {step.kernel for program in decode.programs for step in program.body if step.on_host}
        raise UsageError(
            f"a decode step leaves {', '.join(sorted(atens))} to the host, whose time no plan knows: no time per token "
            "can be predicted. Run: proveout generate MODEL.py --dry-run, which says what the chip's part takes."
        )
    spec = find(device).spec
    chips = max(program.chips for program in decode.programs)
    fixed, per_position = (kept / chips for kept in _kept_bytes(generator))
    per_user = fixed + per_position * max_length
    cache = round(per_user * batch)
    peak, dram = decode.memory.dram_peak_bytes, spec.dram_banks * spec.dram_bank_bytes if spec else None
    beside = max(peak - cache, 0)
    room = max(dram - beside, 0) if dram else None
    return SpeedRow(
        batch, length, max_length, "modelled", first, later,
        max(decode.memory.weight_bytes - cache, 0), cache, peak, dram,
        decode.memory.fits and prefill.memory.fits,
        "" if decode.memory.fits else decode.memory.peak_at,
        None
        if room is None or not per_position
        else min(int((room / batch - fixed) / per_position) // TILE * TILE, _positions(generator.model)),
        None if room is None else int(room / per_user),
        chips,
        tuple(dict.fromkeys(decode.compiled.parallel)),
    )  # fmt: skip


def _positions(model: Any) -> int:
    """That the model knows."""
    config = model.config.get_text_config(decoder=True)
    return getattr(config, "max_position_embeddings", None) or 1 << 31


def _modelled(what: str, phase: Phase, device: str) -> Timing | None:
    time_of = phase.predicted
    if time_of is None:
        return None
    return clock.modelled(what, device, time_of.ns, (time_of.low_ns, time_of.high_ns), time_of.calibrated)


def _kept_bytes(generator: Generator) -> tuple[int, int]:
    """Of one user, on the device, in whole tiles and at the precision that is computed in: whatever the length, and for
    each position."""
    fixed = position = 0
    for layer in generator.layers:
        if isinstance(layer, StateShape):
            fixed += sum(map(_whole_tiles, (layer.taps, layer.size))) * _whole_tiles(layer.channels)
        else:
            position += layer.heads * sum(map(_whole_tiles, (layer.key_size, layer.value_size)))
    return round(fixed * generator.bytes_per_value), round(position * generator.bytes_per_value)


def _whole_tiles(size: int) -> int:
    return -(-size // TILE) * TILE
