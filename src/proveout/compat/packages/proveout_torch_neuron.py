"""Serves `import torch.neuron`, a name inside of another package, which no folder on Python's path can give."""

import sys


class TorchNeuron:
    """Finds that one module; everything else is left to others."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        if fullname != "torch.neuron":
            return None
        from proveout.compat import spec_of

        return spec_of("torch_neuron")


sys.meta_path.append(TorchNeuron)  # type: ignore[arg-type]
