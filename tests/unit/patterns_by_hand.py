"""The matrix unit, its packer and its unpacker once more, on bit patterns: one element at a time, in plain integers,
with every special value. Written from the published rules and from nothing in `src`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

OFFSETS = (0, 5, 7, 12)


@dataclass(frozen=True)
class Setting:
    wormhole: bool = True
    phases: int = 4
    wide: bool = False
    half: bool = False


def read(pattern: int, bits: int, setting: Setting) -> tuple[int, int, int]:
    """Sign, exponent field and 11 bits of significand of a 16- or 32-bit pattern in a source register."""
    if setting.half:
        return pattern >> 15, pattern >> 10 & 31, 1 << 10 | pattern & 0x3FF
    pattern = pattern << 16 if bits == 16 else pattern
    kept = pattern >> 13 & 0x3FF
    return pattern >> 31, pattern >> 23 & 255, 1 << 10 | (kept if setting.wide else kept >> 3 << 3)


def shift(value: int, by: int) -> int:
    """To nearest, halves up; 31 places and more leave nothing."""
    return 0 if by >= 31 else value if by == 0 else (value + (1 << by - 1)) >> by


def signed(sign: int, magnitude: int) -> int:
    return -magnitude if sign else magnitude


def product(a: tuple[int, int, int], b: tuple[int, int, int], phase: int, setting: Setting) -> tuple[int, int, int]:
    """Sign, magnitude and exponent of one product of SrcA and SrcB."""
    bias = -127 if not setting.half else 97 if setting.wide else -15
    if a[1] == 0 or b[1] == 0:
        return 0, 0, max(bias - OFFSETS[phase], 0) if setting.half else 0
    high = phase in (0, 2)
    part_a = a[2] >> 6 if high else a[2] >> 1 & 31
    part_b = b[2] >> 4 if phase < 2 else (b[2] & 15) * 8
    return a[0] ^ b[0], part_a * part_b, a[1] + b[1] + bias - OFFSETS[phase]


def group(terms: list[tuple[int, int, int]]) -> tuple[int, int]:
    top = max((e for _, _, e in terms), default=0)
    if top <= 0:
        return 0, 0
    return sum(signed(s, shift(m, top - e)) for s, m, e in terms) << 13, top


def accumulate(dest: int, groups: list[tuple[int, int]], setting: Setting) -> int:
    """The pattern (float32's places) of the destination after sums with their exponents are added."""
    field = dest >> 23 & 255
    top = max(field, *(e for _, e in groups))
    if top <= 0:
        return 0

    def coarse(value: int) -> int:
        return value if setting.wide else shift(value, 13) << 13

    held = coarse(shift(dest & 0x7FFFFF | 1 << 23 if field else 0, top - field))
    total = signed(dest >> 31, held) + sum(coarse(shift(v, top - e)) for v, e in groups)
    if total == 0:
        return 0
    sign, magnitude = int(total < 0), abs(total)
    if setting.wormhole and total == -1:
        own, after_point = top + 4, 0
    else:
        keep = 24 if setting.wide else 11 if setting.half else 8
        length = magnitude.bit_length()
        own = top + length - 24
        rounded = shift(magnitude, length - keep) if length > keep else magnitude << keep - length
        if rounded >> keep:
            own, rounded = own + 1, rounded >> 1
        after_point = (rounded << 24 - keep) & 0x7FFFFF
    if own <= 0:
        return 0
    if setting.half and not setting.wide:
        return sign << 31 | (31 << 23 | 0x3FF << 13 if own >= 32 else own << 23 | after_point)
    return sign << 31 | (255 << 23 if own >= 255 else own << 23 | after_point)


def matmul(row: list[int], row_bits: int, column: list[int], column_bits: int, setting: Setting, dest: int = 0) -> int:
    src_b = [read(p, row_bits, setting) for p in row]
    src_a = [read(p, column_bits, setting) for p in column]
    missing = [(0, 0, 1 << 10)] * (-len(row) % 32)
    src_a, src_b = src_a + missing, src_b + missing
    for tile in range(0, len(src_a), 32):
        for phase in range(setting.phases):
            for first in (tile, tile + 16):
                terms = [product(src_a[k], src_b[k], phase, setting) for k in range(first, first + 16)]
                dest = accumulate(dest, [group(terms[:8]), group(terms[8:])], setting)
    return dest


def sum_column(column: list[int], bits: int, scaler: int, setting: Setting) -> int:
    """GAPOOL: 16 rows with all phases, then the next 16. The scaler has the data's format."""
    src_a = [read(p, bits, setting) for p in column] + [(0, 0, 1 << 10)] * (-len(column) % 32)
    src_b = read(scaler, bits, setting)
    dest = 0
    for first in range(0, len(src_a), 16):
        for phase in range(setting.phases):
            terms = [product(a, src_b, phase, setting) for a in src_a[first : first + 16]]
            dest = accumulate(dest, [group(terms[:8]), group(terms[8:])], setting)
    return dest


def max_column(column: list[int], bits: int, setting: Setting) -> int:
    wide = [p << 16 if bits == 16 else p & (-(1 << 13) if setting.wide else -(1 << 16)) for p in column]
    flushed = [p if p >> 23 & 255 else 0 for p in wide]
    return max(flushed, key=lambda p: -(p & 0x7FFFFFFF) - 1 if p >> 31 else p)


def multiply(a: int, a_bits: int, b: int, b_bits: int, setting: Setting) -> int:
    dest = 0
    for phase in range(setting.phases):
        s, m, e = product(read(a, a_bits, setting), read(b, b_bits, setting), phase, setting)
        dest = accumulate(dest, [(signed(s, m) << 13, e) if e > 0 else (0, 0)], setting)
    return dest


def add(a: int, a_bits: int, b: int, b_bits: int, setting: Setting, subtract: bool) -> int:
    (sa, ea, ma), (sb, eb, mb) = read(a, a_bits, setting), read(b, b_bits, setting)
    ma, mb = ma if ea else 0, mb if eb else 0
    top = max(ea, eb)
    first, second = (signed(s, shift(m, top - e) if top - e < 12 else 0) for s, e, m in ((sa, ea, ma), (sb, eb, mb)))
    total = first - second if subtract else first + second
    return accumulate(0, [(total << 13, top)], setting)


def pack_bf16(dest: int, wide: bool) -> int:
    """The 16 bits in L1."""
    sign, magnitude = dest >> 31 << 31, dest & 0x7FFFFFFF
    if magnitude >= 255 << 23:
        return (sign | 255 << 23) >> 16
    if wide:
        magnitude += 0x8000
    return (sign | magnitude) >> 16 if magnitude >> 23 else 0


def pack_block(dests: list[int], bits: int, wide: bool, precise: bool) -> tuple[list[int], int]:
    """Sign and magnitude of each of 16, and their exponent."""
    short = []
    for dest in dests:
        nan = dest & 0x7FFFFFFF > 255 << 23
        dest = dest >> 31 << 31 | 255 << 23 if nan and not (precise and wide) else dest
        half = dest >> 16
        if not precise:
            half = (half if wide or half >> 7 & 255 else 0) + 1 & 0xFFFE
        short.append(half if half >> 7 & 255 else 0)
    shared = max(h >> 7 & 255 for h in short)
    out = []
    for h in short:
        magnitude = 0
        if h >> 7 & 255:
            by = shared - (h >> 7 & 255) + 1
            magnitude = min((h & 127 | 128) + (1 << by - 1) >> by, 127) if by <= 8 else 0
        magnitude >>= 7 - bits
        out.append((h >> 15) << bits | magnitude if magnitude else 0)
    return out, shared


def unpack(code: int, shared: int, bits: int) -> int:
    """The float32 pattern that a source register holds of one element of a block."""
    sign, magnitude = code >> bits, code & (1 << bits) - 1
    if magnitude == 0:
        return (1 << 31 | 255 << 23) if sign else 0
    zeros = bits - magnitude.bit_length()
    return sign << 31 | (shared - zeros & 255) << 23 | (magnitude << zeros << 24 - bits) & 0x7FFFFF


def add_bf16_in_l1(there: int, packed: int) -> int:
    """16-bit patterns, no NaN among them: the exact sum to nearest even."""
    a, b = (p if p >> 7 & 255 else p & 0x8000 for p in (there, packed))
    if a & 0x7FFF == b & 0x7FFF == 0x7F80 and a != b:
        return 0x7FC0
    for p in (a, b):
        if p & 0x7FFF == 0x7F80:
            return p
    total = sum(signed(p >> 15, (p & 127 | 128) << (p >> 7 & 255)) for p in (a, b) if p >> 7 & 255)
    if total == 0:
        return a & b & 0x8000
    sign, magnitude = (0x8000 if total < 0 else 0), abs(total)
    last = magnitude.bit_length() - 8
    rounded = round(Fraction(magnitude, 1 << last)) if last > 0 else magnitude << -last
    if rounded == 256:
        rounded, last = 128, last + 1
    if last <= 0:
        return sign
    return sign | (0x7F80 if last >= 255 else last << 7 | rounded & 127)
