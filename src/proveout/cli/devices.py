"""`proveout devices`: where models can run here, and why not elsewhere."""

from __future__ import annotations

from proveout.cli.request import Json


def verb(as_json: Json = False) -> int:
    """List the devices, and why one cannot be used here.

    Says of each whether its times are measured by a clock or modelled.

    \b
    Example:
      proveout devices --json
    """
    from proveout.cli.output import colour, emit, emit_json
    from proveout.devices.registry import ALIASES, devices
    from proveout.report.terminal import grid

    found = [
        (name, [alias for alias, full in ALIASES.items() if full == name], info) for name, info in devices().items()
    ]
    if as_json:
        keys = ("available", "times", "description", "reason")
        documents = [
            {"name": name, "aliases": aliases} | {key: getattr(info, key) for key in keys}
            for name, aliases, info in found
        ]
        emit_json({"devices": documents})
        return 0
    rows = [
        (
            ", ".join([name, *aliases]),
            "yes" if info.available else "no",
            info.times,
            info.description,
            info.reason,
        )
        for name, aliases, info in found
    ]
    emit(grid(("Device", "Available", "Times", "What it is", "Reason"), rows, colour()))
    return 0
