"""Whether ttnn would take a call: by the signatures of our copy of its interface."""

from __future__ import annotations

from collections.abc import Mapping

from proveout.kernels.signatures import signatures


def binding_error(name: str, attributes: Mapping[str, bool]) -> str | None:
    """Why a call binds to no overload, or None. `attributes` says of each given name whether it is a tensor."""
    if name not in signatures():
        return f"ttnn {name} has no signature in our copy"
    reasons = []
    for overload in signatures()[name]:
        known = {p.name: p for p in overload}
        strange = [a for a in attributes if a not in known]
        missing = [p.name for p in overload if p.required and p.name not in attributes]
        wrong = [a for a, tensor in attributes.items() if a in known and not known[a].may_take(tensor)]
        if not (strange or missing or wrong):
            return None
        reasons.append(f"unknown {strange}, missing {missing}, of another kind {wrong}")
    return f"{name}: no overload takes this call ({'; '.join(reasons)})"
