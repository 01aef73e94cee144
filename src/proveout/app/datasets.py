"""CIFAR-10's and MNIST's test sets, where a folder has them as torchvision leaves them; read without torchvision."""

from __future__ import annotations

import gzip
import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from PIL import Image

from proveout.errors import UsageError
from proveout.folders import default_folder

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

CIFAR_FOLDER = "cifar-10-batches-py"
CIFAR_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MNIST_FOLDER = "MNIST/raw"
IDX_OF_BYTES = b"\x00\x00\x08"
"""How an IDX file of unsigned bytes begins; the number of dimensions follows."""
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class TestSet:
    """The images that nobody trained on, and what each shows."""

    name: str
    images: Pixels
    """N x height x width, or N x height x width x 3."""
    labels: tuple[str, ...]

    __test__ = False

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int) -> Image.Image:
        return Image.fromarray(self.images[index]).convert("RGB")


def folder_of(chosen: str | None) -> Path:
    """Where data sets lie: what `--data` says, or `data` in the cache."""
    return Path(chosen).expanduser() if chosen else default_folder() / "data"


def test_set_name(task: str, folder: Path) -> str | None:
    """The test set of a task that lies in a folder, by its name; None where none does. Nothing is read."""
    wanted = TEST_SETS.get(task)
    return wanted.name if wanted and any((folder / path).is_file() for path in wanted.files) else None


def read_test_set(task: str, folder: Path) -> TestSet:
    """UsageError where its files are not what they should be."""
    wanted = TEST_SETS[task]
    try:
        images, labels = wanted.read(folder)
    except Exception as error:  # a pickle's own parts raise what they like
        why = str(error)[:300] or type(error).__name__
        raise UsageError(f"cannot read {wanted.name} in {folder}: {why}. Download it again.") from error
    if not labels or len(images) != len(labels):
        raise UsageError(
            f"{wanted.name} in {folder} has {len(images)} images and {len(labels)} labels. Download it again."
        )
    return TestSet(wanted.name, images, labels)


def _cifar(folder: Path) -> tuple[Pixels, tuple[str, ...]]:
    """A pickled dict of rows of 3 x 32 x 32 bytes and their classes, written by Python 2."""
    batch = _BytesOnly(io.BytesIO(_content(folder / CIFAR_FOLDER / "test_batch")), encoding="bytes").load()
    images = batch[b"data"].values().reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    if min(batch[b"labels"], default=0) < 0:
        raise ValueError("a label is negative")
    return images, tuple(CIFAR_NAMES[label] for label in batch[b"labels"])


class _Array:
    """What a pickle says of an array of bytes. numpy's own would believe any dtype that it says, and follow it."""

    data = b""

    def __init__(self, *described: Any) -> None:
        self.described = described

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.data = state[-1]

    def values(self) -> Pixels:
        import numpy as np

        return np.frombuffer(self.data, np.uint8)


class _Dtype:
    """A dtype that a pickle names: there is one here."""

    def __init__(self, name: object, *rest: Any) -> None:
        if name not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"it holds an array of {str(name)[:40]}, and not of bytes")

    def __setstate__(self, state: object) -> None:
        """Byte order and size: nothing to know."""


def _buffer(data: Any, dtype: object, shape: object, order: object) -> _Array:
    array = _Array()
    array.data = data
    return array


class _BytesOnly(pickle.Unpickler):
    """Arrays of bytes and plain values: a pickle may call nothing else."""

    NAMES: ClassVar = {"_reconstruct": _Array, "ndarray": _Array, "dtype": _Dtype, "_frombuffer": _buffer}

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in self.NAMES:
            return self.NAMES[name]
        if (module, name) == ("_codecs", "encode"):  # how protocol 2 writes bytes
            return _latin
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array")


def _latin(text: str, encoding: object) -> bytes:
    return text.encode("latin1")


def _mnist(folder: Path) -> tuple[Pixels, tuple[str, ...]]:
    raw = folder / MNIST_FOLDER
    images, labels = _idx(raw / "t10k-images-idx3-ubyte", 3), _idx(raw / "t10k-labels-idx1-ubyte", 1)
    return images, tuple(str(label) for label in labels.tolist())


def _idx(path: Path, dimensions: int) -> Pixels:
    """Two zeros, the type, the number of dimensions, each in four bytes from the highest on, then the values."""
    import numpy as np

    content = _content(path if path.is_file() else path.with_name(f"{path.name}.gz"))
    if content[:4] != IDX_OF_BYTES + bytes([dimensions]):
        raise ValueError(f"{path.name} is no IDX file of bytes in {dimensions} dimensions")
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _content(path: Path) -> bytes:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        content: bytes = file.read(MOST_BYTES)
    return content


@dataclass(frozen=True)
class _Known:
    name: str
    files: tuple[str, ...]
    """One of these is enough to say that it is there."""
    read: Callable[[Path], tuple[Pixels, tuple[str, ...]]]


_MNIST_IMAGES = f"{MNIST_FOLDER}/t10k-images-idx3-ubyte"
TEST_SETS = {
    "pictures": _Known("CIFAR-10", (f"{CIFAR_FOLDER}/test_batch",), _cifar),
    "digits": _Known("MNIST", (_MNIST_IMAGES, f"{_MNIST_IMAGES}.gz"), _mnist),
}
"""By task."""
