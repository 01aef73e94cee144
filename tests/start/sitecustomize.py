"""Read by every Python that a test starts: PyTorch is imported without the garbage collector, which finds next to
nothing there and takes a tenth to a fifth of the time. Many tests start processes that import it."""

import gc
import sys
from importlib.machinery import PathFinder

LARGE = {"torch", "torch._dynamo", "transformers"}


class WithoutCollector:
    """Finds what the system's own finder does; while such a module is executed, no garbage is looked for."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in LARGE:
            return None
        LARGE.discard(name)
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            was_on = gc.isenabled()
            gc.disable()
            try:
                execute(module)
            finally:
                if was_on:
                    gc.enable()

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, WithoutCollector)
