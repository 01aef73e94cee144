"""The chip's number rules written once more, slowly: plain integers and fractions, one element at a time."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
MAGNITUDE_BITS = {"bfloat8_b": 7, "bfloat4_b": 3}


def fields(x: float) -> tuple[int, int, int]:
    """Sign, exponent and mantissa of a float32."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return bits >> 31, bits >> 23 & 255, bits & 0x7FFFFF


def power(n: int) -> Fraction:
    return Fraction(2) ** n


def pack_group(values: list[float], dtype: str, packer: str) -> tuple[int, list[int]]:
    """One shared exponent, and each element's sign and magnitude as one number."""
    bits = MAGNITUDE_BITS[dtype]
    if packer == "device":
        values = [seven_bits(v) for v in values]
    shared = max(fields(v)[1] for v in values)
    return shared, [_element(v, shared, bits, packer) for v in values]


def _element(value: float, shared: int, bits: int, packer: str) -> int:
    sign, exponent, mantissa = fields(value)
    if exponent == 0:
        return 0
    significand = 1 << 23 | mantissa
    if packer == "host":
        significand >>= shared - exponent
        unit = 1 << 24 - bits
        magnitude, rest = divmod(significand, unit)
        if rest * 2 > unit or (rest * 2 == unit and magnitude % 2 == 1):
            magnitude += 1
        magnitude = min(magnitude, (1 << bits) - 1)
    else:
        magnitude = (significand >> 16) + (1 << shared - exponent) >> shared - exponent + 1
        magnitude = min(magnitude, 127) >> 7 - bits
    return sign << bits | magnitude if magnitude else 0


def seven_bits(value: float) -> float:
    """What the chip's packer makes of a number before it looks for the group's exponent: cut to bfloat16, then to 7
    bits of significand, ties away from zero, which may raise the exponent; denormals become 0."""
    (raw,) = struct.unpack("<I", struct.pack("<f", value))
    short = (raw >> 16) + 1 & ~1
    return struct.unpack("<f", struct.pack("<I", short << 16 if short & 0x7FFF >= 0x80 else 0))[0]


def unpack_element(packed: int, shared: int, dtype: str) -> Fraction:
    bits = MAGNITUDE_BITS[dtype]
    sign, magnitude = packed >> bits, packed & (1 << bits) - 1
    value = magnitude * power(shared - 127 - (bits - 1))
    if abs(value) < power(-126):
        return Fraction(0)
    return -value if sign else value


def quantised(values: list[float], dtype: str, packer: str) -> list[Fraction]:
    shared, packed = pack_group(values, dtype, packer)
    return [unpack_element(p, shared, dtype) for p in packed]


OFF = (0, 5, 7, 12)


def source(x: float, fp32_dest: bool) -> tuple[int, int, int]:
    """Sign (1, -1, or 0 for zero), exponent field and 11 bits of significand in a source register."""
    sign, exponent, mantissa = fields(x)
    kept = (1 << 23 | mantissa) >> 13
    if not fp32_dest:
        kept = kept >> 3 << 3
    return (0 if exponent == 0 else -1 if sign else 1), exponent, kept


def products(a: float, b: float, phase: int, fp32_dest: bool) -> tuple[int, int]:
    """Signed magnitude and exponent of one product: `a` through SrcA, `b` through SrcB."""
    sign_a, ea, ma = source(a, fp32_dest)
    sign_b, eb, mb = source(b, fp32_dest)
    if not sign_a or not sign_b:
        return 0, 0
    ma = ma >> 1 & 31 if phase % 2 else ma >> 6
    mb = (mb & 15) * 8 if phase >= 2 else mb >> 4
    return sign_a * sign_b * ma * mb, ea + eb - 127 - OFF[phase]


def half_up(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2))


def half_away(x: Fraction) -> int:
    return half_up(x) if x >= 0 else -half_up(-x)


def group(terms: list[tuple[int, int]]) -> tuple[int, int]:
    """Eight products in units of 2^-23 of the largest exponent, and that exponent."""
    top = max((e for _, e in terms), default=0)
    if top <= 0:
        return 0, 0
    return sum(half_away(m * power(e - top)) for m, e in terms) << 13, top


def accumulate(dest: Fraction, groups: list[tuple[int, int]], fp32_dest: bool, wormhole: bool = True) -> Fraction:
    """The destination after groups are added to it."""
    field = 0 if dest == 0 else math.frexp(float(dest))[1] - 1 + 127
    top = max(field, *(e for _, e in groups))
    if top <= 0:
        return Fraction(0)
    unit = power(top - 127 - 23)
    total = half_away(dest / unit) if top - field < 31 else 0
    total = total if fp32_dest else half_away(Fraction(total, 8192)) * 8192
    for value, e in groups:
        aligned = half_up(value * power(e - top)) if top - e < 31 else 0
        total += aligned if fp32_dest else half_up(Fraction(aligned, 8192)) * 8192
    if wormhole and total == -1:
        return -power(top + 4 - 127)
    bits = 24 if fp32_dest else 8
    length = abs(total).bit_length()
    last = max(length - bits, 0) if fp32_dest else length - bits
    value = half_away(total * power(-last)) * power(last) * unit
    return value if abs(value) >= power(-126) else Fraction(0)


def matmul_element(
    row: list[float], column: list[float], fidelity: str, fp32_dest: bool, start: float = 0.0
) -> Fraction:
    """One element of a product: `row` of input 0 through SrcB, `column` of input 1 through SrcA."""
    dest = Fraction(start)
    for tile in range(0, len(row), 32):
        for phase in range(PHASES[fidelity]):
            for first in (tile, tile + 16):
                ks = [range(k, min(k + 8, len(row))) for k in (first, first + 8)]
                terms = [[products(column[k], row[k], phase, fp32_dest) for k in some] for some in ks]
                dest = accumulate(dest, [group(t) for t in terms], fp32_dest)
    return dest


def multiply_element(a: float, b: float, fidelity: str, fp32_dest: bool) -> Fraction:
    dest = Fraction(0)
    for phase in range(PHASES[fidelity]):
        magnitude, exponent = products(a, b, phase, fp32_dest)
        term = (magnitude << 13, exponent) if exponent > 0 else (0, 0)
        dest = accumulate(dest, [term], fp32_dest)
    return dest


def add_element(a: float, b: float, fp32_dest: bool) -> Fraction:
    """The smaller operand shifted to the larger one's exponent: 10 bits after its point are kept."""
    read = [source(x, fp32_dest) for x in (a, b)]
    top = max((e for s, e, _ in read if s), default=0)
    total = sum(s * half_up(m * power(e - top)) for s, e, m in read if s)
    return accumulate(Fraction(0), [(total << 13, top)], fp32_dest)
