"""Seeded damage to JSON documents and files: what a careless disk does, and what somebody does on purpose."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

CANARY = "the-canary-is-dead"
"""A file that every payload below would make in the working folder."""
_TOUCH = f"open({CANARY!r}, 'w').close()"
PAYLOADS = (
    f"x=__import__('builtins').exec({_TOUCH!r}) or 1, dim",
    f"__import__('os').system('touch {CANARY}')",
    f"a\n    {_TOUCH}\n    b",
    f"dim=0); {_TOUCH}; (",
    "import_module",
    "load_library.__func__.__globals__",
    "builtins.exec.default",
    "aten.save.default",
    "aten.from_file.default",
    "aten.add_.Tensor",
    "torch.load",
    "torch.hub.load",
    f"ttnn.MemoryConfig({_TOUCH})",
    "ttnn.__builtins__.exec",
    "ttnn.no_such_kernel",
    "__class__",
    "*",
    "\x00",
    "🙂" * 40,
    "x" * 5000,
)
SCALARS = (None, True, False, 0, 1, -1, 2, 31, 2**31, 2**63, 10**30, -(2**40), 0.5, -0.0, 1e308, "", "float", [], {})


def mutated(document: Any, rng: random.Random) -> Any:
    """A copy with one to three places changed."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = rng.choice(places)
        _change(holder, key, places, rng)
    return document


def _places(node: Any) -> Any:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from _places(value)


def _change(holder: Any, key: Any, places: list[Any], rng: random.Random) -> None:
    if isinstance(holder, list) and not 0 <= key < len(holder):
        return
    if isinstance(holder, dict) and key not in holder:
        return
    match rng.randrange(9):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case 1:
            holder[rng.choice(PAYLOADS)] = holder.pop(key)
        case 2 | 3:
            holder[key] = rng.choice(PAYLOADS)
        case 4:
            other, where = rng.choice(places)
            if not isinstance(other, list) or 0 <= where < len(other):
                holder[key] = copy.deepcopy(other.get(where) if isinstance(other, dict) else other[where])
        case 5 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] += rng.choice((-1, 1, 7, 1 << 20))
        case 6:
            holder[key] = [holder[key]]
        case 7:
            holder[key] = _nested(rng.choice((3, 40, 300)))
        case _:
            holder[key] = copy.deepcopy(rng.choice(SCALARS))


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def rewritten(text: str, rng: random.Random) -> str:
    """JSON text changed where a parser reads it: numbers that are none, keys that come twice, names exchanged."""
    words, numbers = re.findall(r'"[^"\\]+"', text), re.findall(r"-?\d+", text)
    place = rng.randrange(len(text))
    match rng.randrange(7):
        case 0:
            other = rng.choice(("NaN", "-Infinity", "1e999", "9" * 5000, "0x1", "1.", "-0", "1e-400", "9" * 40))
            return re.sub(rf"\b{re.escape(rng.choice(numbers))}\b", other, text, count=1)
        case 1:
            brace = rng.choice([i for i, character in enumerate(text) if character == "{"])
            twice = '"kernel": "aten.save.default", "ref": "x", "schema": 4, "name": "ttnn.x",'
            return text[: brace + 1] + twice + text[brace + 1 :]
        case 2:
            return text[:place] + "[" * 200_000 + text[place:]
        case 3:
            odd = ("\\ud800", "\\u0000", "\x00", "\u202e", '"', "\\", "{}", "[]", ",", ":", "null", "\ufeff")
            return text[:place] + rng.choice(odd) + text[place:]
        case 4:
            return text[:place] + text[rng.randrange(place, len(text)) :]
        case 5:
            return text.replace(rng.choice(words), rng.choice(words))
    return text.replace(rng.choice(numbers), str(rng.choice((0, -1, 1, 2, 2**31, 2**62, 10**18))))


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A file with bits flipped, cut short, emptied or overwritten."""
    match rng.randrange(5):
        case 0:
            return data[: rng.randrange(len(data) + 1)]
        case 1:
            return b""
        case 2:
            start = rng.randrange(len(data) or 1)
            return data[:start] + rng.randbytes(16) + data[start + 16 :]
        case 3:
            return rng.randbytes(200)
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)
