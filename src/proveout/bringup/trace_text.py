"""The fixed parts of `ttnn_trace.py` and `tests/test_trace.py`."""

RUNNER = '''"""{name} with and without trace and a second queue. `python ttnn_trace.py` prints modelled times.

Written by `proveout bringup`; the model is ttnn_model.py beside it. Edit both as you like.
"""

import torch

import ttnn_model
from proveout import ttnn

MODES = {{
    "none": (False, 1),
    "trace": (True, 1),
    "2 queues": (False, 2),
    "trace and 2 queues": (True, 2),
}}
"""(whether a trace is captured, number of command queues)."""
CALLS = 4
TRACE_REGION = {region}


def run(mode, number=0, calls=CALLS):
    """One graph, some calls: the last call's outputs, and modelled ns a call."""
    traced, queues = MODES[mode]
    device = ttnn_model.open_device(trace_region_size=TRACE_REGION, num_command_queues=queues)
    tensors = ttnn_model.load()
    model = ttnn_model.GRAPHS[number](device, tensors)
    inputs = ttnn_model.inputs_of(number, tensors)
    given = model.send(*inputs)
    moving = [i for i, x in enumerate(given) if not isinstance(x, torch.Tensor)]
    hosts = [ttnn.from_torch(ttnn.to_torch(given[i]), dtype=given[i].dtype, layout=given[i].layout) for i in moving]
    staged = [ttnn.clone(given[i]) for i in moving] if queues == 2 else [given[i] for i in moving]
    model.compute(*given)  # fills the program cache and prepares weights
    if traced:
        trace = ttnn.begin_trace_capture(device, cq_id=0)
        outputs = model.compute(*given)
        ttnn.end_trace_capture(device, trace, cq_id=0)
    ttnn.synchronize_device(device)
    started = device.modelled_ns
    taken, read = ttnn.record_event(device, 0), []
    for _ in range(calls):
        if queues == 2:
            # Queue 1 writes the next inputs while queue 0 computes; events order the two.
            ttnn.wait_for_event(1, taken)
            for host, stage in zip(hosts, staged):
                ttnn.copy_host_to_device_tensor(host, stage, 1)
            ttnn.wait_for_event(0, ttnn.record_event(device, 1))
            for i, stage in zip(moving, staged):
                ttnn.copy(stage, given[i])
            taken = ttnn.record_event(device, 0)
        else:
            for host, stage in zip(hosts, staged):
                ttnn.copy_host_to_device_tensor(host, stage, 0)
        if traced:
            ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
        else:
            outputs = model.compute(*given)
        read = [x if isinstance(x, torch.Tensor) else x.cpu(blocking=False) for x in outputs]
    ttnn.synchronize_device(device)
    ns = (device.modelled_ns - started) / calls
    results = [x if isinstance(x, torch.Tensor) else ttnn.to_torch(x) for x in read]
    if traced:
        ttnn.release_trace(device, trace)
    ttnn.close_device(device)
    return results, ns


def time_of(mode):
    """Modelled ns of one call of every graph."""
    return round(sum(run(mode, number)[1] for number in range(len(ttnn_model.GRAPHS))))


if __name__ == "__main__":
    for mode in MODES:
        print(f"{{mode}}: {{time_of(mode) / 1e6:.3f}} ms a call (modelled)")
'''

TESTS = '''"""{name} gives the same without trace, in a trace, with two queues and with both.

Written by `proveout bringup`. Plain pytest; it needs the package and nothing else.
"""

import functools
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import ttnn_model  # noqa: E402
import ttnn_trace  # noqa: E402

MODES = {modes}


@functools.cache
def plain(number):
    return ttnn_trace.run("none", number)


@pytest.mark.parametrize("number", range(len(ttnn_model.GRAPHS)))
@pytest.mark.parametrize("mode", MODES)
def test_mode_gives_the_same(mode, number):
    found, _ = ttnn_trace.run(mode, number)
    for one, other in zip(found, plain(number)[0], strict=True):
        assert torch.equal(one.nan_to_num(nan=7.0), other.nan_to_num(nan=7.0))


@pytest.mark.skipif("trace" not in MODES, reason="host ops are inside the model")
@pytest.mark.parametrize("number", range(len(ttnn_model.GRAPHS)))
def test_a_trace_is_no_slower(number):
    assert ttnn_trace.run("trace", number)[1] <= plain(number)[1]
'''
