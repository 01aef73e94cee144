"""The chip's number rules written once more, slowly: plain integers and fractions, one element at a time."""

from __future__ import annotations

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


def rounded(x: Fraction, bits: int) -> Fraction:
    """To nearest even with so many bits of significand; a denormal becomes 0."""
    if x == 0:
        return x
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if abs(x) < power(exponent):
        exponent -= 1
    exponent = max(exponent, -126)
    unit = power(exponent - bits + 1)
    near = round(x / unit) * unit  # Python rounds a Fraction's ties to even
    return near if abs(near) >= power(-126) else Fraction(0)


def pack_group(values: list[float], dtype: str, packer: str) -> tuple[int, list[int]]:
    """One shared exponent, and each element's sign and magnitude as one number."""
    bits = MAGNITUDE_BITS[dtype]
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
        significand >>= 16
        unit = 2 << shared - exponent
        magnitude, rest = divmod(significand, unit)
        if rest * 2 >= unit:
            magnitude += 1
        magnitude = min(magnitude, 127) >> 7 - bits
    return sign << bits | magnitude if magnitude else 0


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


def source_parts(x: float, source: str) -> tuple[Fraction, Fraction]:
    """What phases take of an operand: its first and its second piece."""
    sign, exponent, mantissa = fields(x)
    if exponent == 0:
        return Fraction(0), Fraction(0)
    eleven = (1 << 23 | mantissa) >> 13
    unit = power(exponent - 127 - 10) * (-1 if sign else 1)
    if source == "A":
        return (eleven >> 6 << 6) * unit, ((eleven >> 1) % 32 << 1) * unit
    return (eleven >> 4 << 4) * unit, (eleven % 16) * unit


def write(x: Fraction, fp32_dest: bool) -> Fraction:
    x = rounded(x, 24)
    return x if fp32_dest else rounded(x, 8)


def matmul_element(
    row: list[float], column: list[float], fidelity: str, fp32_dest: bool, block_tiles: int | None = None
) -> Fraction:
    """One element of a product: `row` of input 0 through SrcB, `column` of input 1 through SrcA."""
    b = [source_parts(x, "B") for x in row]
    a = [source_parts(x, "A") for x in column]
    dest, partials = Fraction(0), []
    for tile in range(0, len(row), 32):
        for phase in range(PHASES[fidelity]):
            for start in (tile, tile + 16):
                step = Fraction(0)
                for k in range(start, min(start + 16, len(row))):
                    step = rounded(step + rounded(a[k][phase % 2] * b[k][phase // 2], 24), 24)
                dest = write(dest + step, fp32_dest)
        if block_tiles and (tile // 32 + 1) % block_tiles == 0:
            partials.append(dest)
            dest = Fraction(0)
    if not partials:
        return dest
    kept = partials[0]
    for more in [*partials[1:], dest]:
        kept = write(kept + more, fp32_dest)
    return kept


def multiply_element(a: float, b: float, fidelity: str, fp32_dest: bool) -> Fraction:
    parts_a, parts_b = source_parts(a, "A"), source_parts(b, "B")
    dest = Fraction(0)
    for phase in range(PHASES[fidelity]):
        dest = write(dest + rounded(parts_a[phase % 2] * parts_b[phase // 2], 24), fp32_dest)
    return dest


def add_element(a: float, b: float, fp32_dest: bool) -> Fraction:
    return write(sum(source_parts(a, "B")) + sum(source_parts(b, "B")), fp32_dest)
