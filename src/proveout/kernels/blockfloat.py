"""Block floats, bit by bit: `bfloat8_b` and `bfloat4_b` as the host packs them and as the chip's packer does.

A tile of 32×32 elements is four 16×16 faces (left to right, top to bottom). The 16 elements of a face's row share one
8-bit exponent, the largest among them; each keeps a sign and 7 (3) bits of magnitude with an explicit leading one:
`magnitude / 2^6 · 2^(exponent − 127)` (`/ 2^2` for bfloat4_b). A tensor is padded with zeros to whole tiles.

The host packs float32: denormals become 0; the significand is shifted right by the exponent difference and the bits
shifted out are lost; what is left is rounded to nearest even. The chip's packer (`formats.pack_blocks`) takes bfloat16
(float32 is cut to it), rounds it to 7 bits of significand, ties away from zero, and then shifts it to the shared
exponent, halves up; bfloat4_b is the top 3 bits of that. In both, rounding up from all ones stays all ones, and a
magnitude of 0 has no sign.

What follows for odd values: an infinity gives its group the exponent 255 and stays infinite, its finite neighbours lose
their low bits to it (most become 0); the host keeps a NaN while its top bits say so (torch's own do; one whose payload
is in the low bits alone reads back as infinity), the chip makes it infinite. A value whose exponent would leave the
normal range reads as 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from proveout.kernels.arithmetic.formats import pack_blocks
from proveout.types import TILE

Tensor = torch.Tensor
Packer = Literal["host", "device"]

FACE = 16
GROUPS = TILE * TILE // FACE
"""Exponents of one tile."""
CHUNK = 1 << 13
"""Groups packed at a time: what a core's cache holds."""
_MANTISSA, _HIDDEN = (1 << 23) - 1, 1 << 23


@dataclass(frozen=True)
class BlockFloat:
    """One format: its name and the bits of a magnitude."""

    name: str
    bits: int

    @property
    def tile_bytes(self) -> int:
        return GROUPS + TILE * TILE * (self.bits + 1) // 8


FORMATS = {f.name: f for f in (BlockFloat("bfloat8_b", 7), BlockFloat("bfloat4_b", 3))}


def quantise(x: Tensor, dtype: str, packer: Packer = "host") -> Tensor:
    """What a tensor reads back as after it was packed. bfloat16 holds every such number exactly."""
    if x.is_meta or x.numel() == 0:
        return x.to(torch.bfloat16)
    wide = F.pad(x.float(), (0, -x.shape[-1] % FACE)) if x.dim() else x.float().reshape(1)
    if wide.shape[-1] % FACE:  # a number without dimensions
        wide = F.pad(wide, (0, FACE - 1))
    form = FORMATS[dtype]
    groups = wide.reshape(-1, FACE).split(CHUNK)
    read = torch.cat([_decode(*_encode(some, form, packer), form) for some in groups]).reshape(wide.shape)
    return read[..., : x.shape[-1]].reshape(x.shape) if x.dim() else read[0]


def pack(x: Tensor, dtype: str, packer: Packer = "host") -> bytes:
    """The bytes of a tensor in tile layout. A tile is its 64 exponents, then its magnitudes with the sign on top, face
    after face; two bfloat4_b share a byte, the first in the low half."""
    form = FORMATS[dtype]
    sign, magnitude, exponent = _encode(_to_faces(x.float()), form, packer)
    data = (sign << form.bits | magnitude).to(torch.uint8).reshape(-1, TILE * TILE)
    if form.bits == 3:
        data = data[:, 0::2] | data[:, 1::2] << 4
    tiles = torch.cat([exponent.to(torch.uint8).reshape(-1, GROUPS), data], dim=1)
    return tiles.contiguous().numpy().tobytes()


def unpack(data: bytes, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """The tensor that packed bytes stand for, without its padding."""
    form = FORMATS[dtype]
    tiles = torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(-1, form.tile_bytes).to(torch.int32)
    exponent, packed = tiles[:, :GROUPS].reshape(-1, 1), tiles[:, GROUPS:]
    if form.bits == 3:
        packed = torch.stack([packed & 15, packed >> 4], dim=-1)
    packed = packed.reshape(-1, FACE)
    read = _decode(packed >> form.bits, packed & (1 << form.bits) - 1, exponent, form)
    return _from_faces(read, shape)


def _encode(groups: Tensor, form: BlockFloat, packer: Packer) -> tuple[Tensor, Tensor, Tensor]:
    """Sign and magnitude of each element and exponent of each group, from float32 [groups, 16]."""
    if packer == "device":
        return pack_blocks(groups, form.name, fp32_dest=True)
    raw = groups.view(torch.int32)
    exponent = raw >> 23 & 255
    significand = torch.where(exponent > 0, raw & _MANTISSA | _HIDDEN, 0)
    shared = exponent.amax(dim=1, keepdim=True)
    drop = 24 - form.bits
    aligned = significand >> (shared - exponent).clamp_(max=31)
    magnitude, rest, half = aligned >> drop, aligned & (1 << drop) - 1, 1 << drop - 1
    magnitude += ((rest > half) | (rest == half) & (magnitude & 1 == 1)).to(torch.int32)
    magnitude.clamp_(max=(1 << form.bits) - 1)
    sign = (raw < 0).to(torch.int32) * (magnitude > 0)
    return sign, magnitude, shared


def _decode(sign: Tensor, magnitude: Tensor, shared: Tensor, form: BlockFloat) -> Tensor:
    """bfloat16: the magnitude normalised, its leading one implied again."""
    raw = magnitude.float().view(torch.int32)  # torch normalises
    exponent = (raw >> 23) + shared - (127 + form.bits - 1)
    bits = sign << 31 | exponent << 23 | raw & _MANTISSA
    read = torch.where((magnitude > 0) & (exponent > 0), bits, 0)
    return (read >> 16).to(torch.int16).view(torch.bfloat16)


def _to_faces(x: Tensor) -> Tensor:
    """[..., rows, columns] as [groups, 16] in the order they lie in memory."""
    x = x.reshape((1,) * (2 - x.dim()) + tuple(x.shape))
    x = F.pad(x, (0, -x.shape[-1] % TILE, 0, -x.shape[-2] % TILE))
    rows, columns = x.shape[-2:]
    tiles = x.reshape(-1, rows // TILE, 2, FACE, columns // TILE, 2, FACE).permute(0, 1, 4, 2, 5, 3, 6)
    return tiles.reshape(-1, FACE)


def _from_faces(groups: Tensor, shape: tuple[int, ...]) -> Tensor:
    rows, columns = (1, 1, *shape)[-2:]
    down, across = -(-rows // TILE), -(-columns // TILE)
    tiles = groups.reshape(-1, down, across, 2, 2, FACE, FACE).permute(0, 1, 3, 5, 2, 4, 6)
    return tiles.reshape(-1, down * TILE, across * TILE)[:, :rows, :columns].reshape(shape)
