"""Asks `proveout.vision` for help when torchvision is first imported.

`proveout_vision.pth` imports this in every Python of an environment, so it imports nothing else itself.
"""

import sys
from importlib import util


class OnFirstImport:
    """A finder that waits for torchvision, once."""

    waits = True

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != "torchvision" or not cls.waits:
            return None
        cls.waits = False
        from proveout import vision

        finders = len(sys.meta_path)
        vision.serve()
        return util.find_spec(name) if len(sys.meta_path) > finders else None  # else it is being served already


sys.meta_path.insert(0, OnFirstImport)  # type: ignore[arg-type]
