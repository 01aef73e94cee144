"""What a benchmark may be given as inputs: checked before any process starts, and turned into calls in a worker."""

from __future__ import annotations

import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from proveout.clock.loops import Arguments, as_arguments
from proveout.errors import UsageError

MOST_DRAWN = 1024
"""Items taken from a generator: it cannot travel to another process, so they are drawn first and then repeated."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """One set of inputs: the same for every call, or many that come one by one."""

    kind: Literal["fixed", "drawn", "function", "dataset", "stream"]
    value: Any
    batch_size: int
    batch_first: bool = True
    """Whether the batch must be the leading dimension; elsewhere it is as many as the user says."""


@dataclass(frozen=True, eq=False)
class DatasetOptions:
    """How a worker goes through a dataset."""

    loop: bool = False
    loader_fn: Callable[[Any, int], Iterable[Any]] | None = None
    loader_kwargs: Mapping[str, Any] = field(default_factory=dict)


def input_sets(
    inputs: Any,
    batch_sizes: int | Sequence[int] | None,
    *,
    preprocessed: bool,
    options: DatasetOptions,
    batch_first: bool = True,
) -> list[Inputs]:
    """One set of inputs for each batch size. What is preprocessed first need not have the batch in front."""
    sizes = None if batch_sizes is None else [batch_sizes] if isinstance(batch_sizes, int) else list(batch_sizes)
    for size in sizes or ():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UsageError(f"batch size {size!r}: give whole numbers from 1.")
    if inputs is None or (isinstance(inputs, (list, tuple, dict)) and not inputs):
        raise UsageError("there are no inputs: give a tensor, a tuple of them, a dict, a list of those, or a Dataset.")
    if options.loader_fn is None and isinstance(inputs, _torch_data("DataLoader")):
        raise UsageError(
            f"each worker makes a DataLoader of its own: give its dataset, batch_sizes={inputs.batch_size}, and what "
            'else it was made with as dataloader_kwargs={"collate_fn": …}.'
        )
    if is_many(inputs) or options.loader_fn is not None:
        return [_many(inputs, size, options) for size in sizes or [1]]
    sets = inputs if isinstance(inputs, list) else [inputs]
    if sizes is None:
        return [Inputs("fixed", each, leading_dimension(each) or 1) for each in sets]
    if len(sizes) != len(sets):
        raise UsageError(
            f"{len(sets)} inputs and {len(sizes)} batch sizes: each input needs the one batch size it has."
        )
    for each, size in zip(sets, sizes):
        if batch_first and not preprocessed:
            check_batch(each, size)
    return [Inputs("fixed", each, size, batch_first) for each, size in zip(sets, sizes)]


def check_batch(inputs: Any, batch_size: int) -> None:
    """Throughput counts batches, so a batch size that the inputs do not have would make it wrong by their ratio."""
    size = leading_dimension(inputs)
    if size is not None and size != batch_size:
        raise UsageError(
            f"batch size {batch_size}, but the inputs' leading dimension is {size}: give batch_sizes={size}, "
            f"or inputs with {batch_size} rows."
        )


def leading_dimension(inputs: Any) -> int | None:
    """Of the first array among a call's inputs; None where there is none."""
    if isinstance(inputs, Mapping):
        inputs = tuple(inputs.values())
    for one in inputs if isinstance(inputs, tuple) else (inputs,):
        shape = getattr(one, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(shape[0])
    return None


def is_many(inputs: Any) -> bool:
    """Whether these are inputs that come one by one."""
    return isinstance(inputs, types.GeneratorType) or inspect.isgeneratorfunction(inputs) or is_dataset(inputs)


def is_dataset(inputs: Any) -> bool:
    return isinstance(inputs, _torch_data("Dataset"))


def _torch_data(name: str) -> Any:
    """A class of PyTorch's module of datasets; where it is not loaded nothing is one."""
    return getattr(sys.modules.get("torch.utils.data"), name, ())


def _many(inputs: Any, batch_size: int, options: DatasetOptions) -> Inputs:
    if options.loader_fn is not None:
        return Inputs("dataset", inputs, batch_size)
    if isinstance(inputs, types.GeneratorType):
        drawn = list(itertools.islice(inputs, MOST_DRAWN))
        if not drawn:
            raise UsageError("the generator of inputs yields nothing: give one that yields at least one input.")
        return Inputs("drawn", drawn, batch_size)
    if inspect.isgeneratorfunction(inputs):
        return Inputs("function", inputs, batch_size)
    if isinstance(inputs, _torch_data("IterableDataset")):
        return Inputs("stream", inputs, batch_size)
    try:
        length = len(inputs)
    except TypeError:
        raise UsageError(
            f"the dataset {type(inputs).__name__} has no length: give it __len__, or make it an IterableDataset."
        ) from None
    if length == 0:
        raise UsageError(f"the dataset {type(inputs).__name__} is empty: give one with at least one item.")
    return Inputs("dataset", inputs, batch_size)


@dataclass(frozen=True)
class WorkerPlace:
    """Which worker this is, for inputs that workers share."""

    worker: int
    """Among the workers of its model."""
    workers_per_model: int
    overall: int
    """Among all workers."""
    num_workers: int


def example(inputs: Inputs, options: DatasetOptions) -> Arguments:
    """The inputs of one call, to compile, warm up and look with."""
    if inputs.kind == "fixed":
        return as_arguments(inputs.value)
    arguments = next(InputStream(inputs, options, WorkerPlace(0, 1, 0, 1)), None)
    if arguments is None:
        raise UsageError("the dataset yields nothing: give one with at least one item.")
    return arguments


class InputStream:
    """Inputs one by one; `missing` counts the items by which batches at the end of a dataset were too short."""

    def __init__(self, inputs: Inputs, options: DatasetOptions, place: WorkerPlace) -> None:
        self.missing = 0
        self._given = self._all(inputs, options, place)

    def __iter__(self) -> Iterator[Arguments]:
        return self

    def __next__(self) -> Arguments:
        return next(self._given)

    def _all(self, inputs: Inputs, options: DatasetOptions, place: WorkerPlace) -> Iterator[Arguments]:
        repeats = inputs.kind == "drawn" or options.loop
        while True:
            empty = True
            for args, kwargs in _once(inputs, options, place):
                empty = False
                if inputs.kind in ("dataset", "stream") and options.loader_fn is None:
                    self.missing += inputs.batch_size - (_rows(args[0]) or inputs.batch_size)
                yield args, kwargs
            if empty or not repeats:
                return


def _rows(batch: Any) -> int | None:
    """How many items a batch holds, as collated: in a tensor, a list of columns or a dict of them."""
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((rows for one in batch if (rows := _rows(one)) is not None), None)
    return leading_dimension(batch)


def _once(inputs: Inputs, options: DatasetOptions, place: WorkerPlace) -> Iterator[Arguments]:
    if options.loader_fn is not None:
        loaded = options.loader_fn(inputs.value, place.workers_per_model)
        return map(as_arguments, itertools.islice(loaded, place.worker, None, place.workers_per_model))
    if inputs.kind == "drawn":
        return map(as_arguments, inputs.value)
    if inputs.kind == "function":
        return map(as_arguments, itertools.islice(inputs.value(), place.overall, None, place.num_workers))
    return (((item,), {}) for item in _loader(inputs, options, place))


def _loader(inputs: Inputs, options: DatasetOptions, place: WorkerPlace) -> Iterable[Any]:
    """Batches of a dataset: all of it for every model, or a worker's share of a stream that is read once."""
    from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info

    class Share(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()  # set in processes that a DataLoader itself starts
            index, parts = (info.id, info.num_workers) if info is not None else (0, 1)
            first, step = place.overall * parts + index, place.num_workers * parts
            return itertools.islice(iter(inputs.value), first, None, step)

    if inputs.kind == "stream":
        share: Any = Share()
    else:
        share = Subset(inputs.value, range(place.worker, len(inputs.value), place.workers_per_model))
    return DataLoader(share, **{"batch_size": inputs.batch_size, **options.loader_kwargs})
