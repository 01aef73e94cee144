"""Traces and command queues of hand-written ttnn: what is captured, what is refused, and what races."""

from __future__ import annotations

import pytest
import torch

from proveout import ttnn

TILES = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT}


def opened(**more):
    return ttnn.open_device(device_id=0, **{"trace_region_size": 1 << 16, "num_command_queues": 2, **more})


@pytest.fixture
def device():
    return opened()


def host(value, *shape):
    return ttnn.from_torch(torch.full(shape or (32, 32), float(value)), **TILES)


def send(device, value, **more):
    return ttnn.to_device(host(value), device, **more)


def number(tensor):
    (found,) = ttnn.to_torch(tensor).unique().tolist()
    return found


def model(x):
    return ttnn.multiply(ttnn.add(x, 1.0), 2.0)


def captured(device, x, function=model):
    function(x)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    y = function(x)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    return trace, y


# ---- traces --------------------------------------------------------------------------------------------------------


def test_a_trace_computes_from_what_lies_at_its_input_now(device):
    x = send(device, 1)
    trace, y = captured(device, x)
    for value in (3, 5):
        ttnn.copy_host_to_device_tensor(host(value), x)
        ttnn.execute_trace(device, trace)
        assert number(y) == 2 * (value + 1)


def test_nothing_runs_while_it_is_captured(device):
    _, y = captured(device, send(device, 1))
    with pytest.raises(RuntimeError, match=r"captured and has not run yet: ttnn.execute_trace runs it"):
        ttnn.to_torch(y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d, x: ttnn.from_torch(torch.ones(32, 32), device=d, **TILES), "Writes are not supported"),
        (lambda d, x: ttnn.to_device(host(1), d), "Writes are not supported"),
        (lambda d, x: ttnn.copy_host_to_device_tensor(host(1), x), "Writes are not supported"),
        (lambda d, x: ttnn.to_torch(x), "Reads are not supported"),
        (lambda d, x: x.cpu(), "Reads are not supported"),
        (lambda d, x: ttnn.record_event(d, 0), "Event Synchronization is not supported"),
        (lambda d, x: ttnn.synchronize_device(d), "Event Synchronization is not supported"),
        (lambda d, x: ttnn.exp(x), r"program of ttnn\.exp is not in the program cache"),
        (lambda d, x: ttnn.begin_trace_capture(d), "a trace is being captured already"),
        (lambda d, x: ttnn.execute_trace(d, 0), "execute_trace is not supported during trace capture"),
    ],
    ids=["from_torch", "to_device", "copy", "to_torch", "cpu", "event", "synchronize", "cold", "twice", "execute"],
)
def test_what_a_capture_cannot_hold_is_refused(device, call, words):
    x = send(device, 1)
    ttnn.begin_trace_capture(device, cq_id=0)
    with pytest.raises(RuntimeError, match=f"TT_FATAL: .*{words}"):
        call(device, x)


def test_an_event_from_before_cannot_be_waited_for_in_a_capture(device):
    event = ttnn.record_event(device, 1)
    ttnn.begin_trace_capture(device)
    with pytest.raises(RuntimeError, match="Event Synchronization is not supported during trace capture"):
        ttnn.wait_for_event(0, event)


def test_another_shape_is_another_program(device):
    x = send(device, 1)
    model(x)
    wide = ttnn.to_device(host(1, 64, 64), device)
    ttnn.begin_trace_capture(device)
    with pytest.raises(RuntimeError, match="not in the program cache"):
        model(wide)


def test_without_the_program_cache_nothing_can_be_captured(device):
    device.disable_and_clear_program_cache()
    with pytest.raises(RuntimeError, match="not in the program cache"):
        captured(device, send(device, 1))
    fresh = opened()
    assert fresh.num_program_cache_entries() == 0
    model(send(fresh, 1))
    assert fresh.num_program_cache_entries() == 2


@pytest.mark.parametrize("size", [0, 4096])
def test_the_trace_region_must_hold_the_trace(size):
    device = opened(trace_region_size=size)
    words = f"trace buffers of size 8192B on device 0, but only {size}B is allocated .* trace_region_size=8192 or more"
    with pytest.raises(RuntimeError, match=words):
        captured(device, send(device, 1))


def test_a_trace_that_is_not_there_is_not_run(device):
    trace, _ = captured(device, send(device, 1))
    ttnn.release_trace(device, trace)
    for call in (ttnn.execute_trace, ttnn.release_trace):
        with pytest.raises(RuntimeError, match=f"Trace instance with ID {trace} not found"):
            call(device, trace)
    with pytest.raises(RuntimeError, match="is not being captured"):
        ttnn.end_trace_capture(device, trace)


def test_addresses_are_frozen(device):
    x = send(device, 1)
    trace, _ = captured(device, x)
    ttnn.deallocate(x)
    with pytest.raises(RuntimeError, match="dram address 0, where no such tensor lies any more"):
        ttnn.execute_trace(device, trace)
    again = send(device, 4)
    assert again.buffer_address() == 0
    ttnn.execute_trace(device, trace)


def test_an_input_may_be_freed_and_allocated_again_at_its_address(device):
    """The pattern for an input in L1 that the model frees."""

    def consuming(x):
        y = model(x)
        ttnn.deallocate(x)
        return y

    staged = send(device, 1)
    consuming(ttnn.to_memory_config(staged, ttnn.L1_MEMORY_CONFIG))
    x = ttnn.to_memory_config(staged, ttnn.L1_MEMORY_CONFIG)
    spec, address = x.spec, x.buffer_address()
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    y = consuming(x)
    x = ttnn.allocate_tensor_on_device(spec, device)
    assert x.buffer_address() == address
    ttnn.end_trace_capture(device, trace, cq_id=0)
    for value in (2, 3):
        ttnn.copy_host_to_device_tensor(host(value), staged)
        ttnn.to_memory_config(staged, ttnn.L1_MEMORY_CONFIG, output_tensor=x)
        ttnn.execute_trace(device, trace, cq_id=0)
        assert number(y) == 2 * (value + 1)


def test_a_tensor_allocated_since_the_capture_may_be_overwritten(device):
    trace, y = captured(device, send_kept := send(device, 1))
    late = send(device, 7)
    ttnn.execute_trace(device, trace)
    with pytest.raises(RuntimeError, match=f"trace {trace} has overwritten this tensor: it was allocated after"):
        ttnn.to_torch(late)
    assert number(y) == 4
    assert number(send_kept) == 1
    ttnn.copy_host_to_device_tensor(host(8), late)
    assert number(late) == 8


def test_convolution_weights_are_prepared_before_a_capture(device):
    x = ttnn.from_torch(torch.ones(1, 1, 64, 4), dtype=ttnn.bfloat16, device=device)
    weight = ttnn.from_torch(torch.ones(8, 4, 3, 3), dtype=ttnn.bfloat16)
    call = {
        "input_tensor": x, "device": device, "in_channels": 4, "out_channels": 8, "batch_size": 1, "input_height": 8,
        "input_width": 8, "kernel_size": (3, 3), "padding": (1, 1),
    }  # fmt: skip
    ttnn.conv2d(weight_tensor=weight, **call)
    trace = ttnn.begin_trace_capture(device)
    with pytest.raises(RuntimeError, match="Writes are not supported during trace capture"):
        ttnn.conv2d(weight_tensor=weight, **call)
    ttnn.end_trace_capture(device, trace)
    prepared = ttnn.prepare_conv_weights(weight_tensor=weight, device=device)
    wanted = ttnn.to_torch(ttnn.conv2d(weight_tensor=prepared, **call))
    trace = ttnn.begin_trace_capture(device)
    y = ttnn.conv2d(weight_tensor=prepared, **call)
    ttnn.end_trace_capture(device, trace)
    ttnn.execute_trace(device, trace)
    assert torch.equal(ttnn.to_torch(y), wanted)


# ---- queues --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 3])
def test_a_device_has_one_queue_or_two(count):
    with pytest.raises(RuntimeError, match=f"1 or 2 command queues, not {count}"):
        opened(num_command_queues=count)


def test_a_queue_that_was_not_asked_for_is_not_there():
    device = opened(num_command_queues=1)
    with pytest.raises(RuntimeError, match=r"cq_id 1 is out of range: .* num_command_queues=1"):
        ttnn.record_event(device, 1)


def test_a_read_after_a_write_on_another_queue_needs_an_event(device):
    x = send(device, 1)
    ttnn.synchronize_device(device)
    ttnn.copy_host_to_device_tensor(host(2), x, 1)
    with pytest.raises(RuntimeError, match=r"queue 0 reads a tensor that command queue 1 may still be writing: .*"):
        ttnn.relu(x)
    ttnn.wait_for_event(0, ttnn.record_event(device, 1))
    assert number(ttnn.relu(x)) == 2


def test_a_write_over_what_another_queue_still_reads_needs_an_event(device):
    x = send(device, 1)
    ttnn.synchronize_device(device)
    ttnn.relu(x)
    with pytest.raises(RuntimeError, match="queue 1 writes a tensor that command queue 0 may still be reading"):
        ttnn.copy_host_to_device_tensor(host(2), x, 1)
    ttnn.wait_for_event(1, ttnn.record_event(device, 0))
    ttnn.copy_host_to_device_tensor(host(2), x, 1)


def test_an_event_recorded_too_early_does_not_help(device):
    x = send(device, 1)
    ttnn.synchronize_device(device)
    early = ttnn.record_event(device, 1)
    ttnn.copy_host_to_device_tensor(host(2), x, 1)
    ttnn.wait_for_event(0, early)
    with pytest.raises(RuntimeError, match="command queue 1 may still be writing"):
        ttnn.relu(x)


@pytest.mark.parametrize(
    "wait",
    [
        lambda d: ttnn.synchronize_device(d),
        lambda d: ttnn.synchronize_device(d, 1),
        lambda d: ttnn.event_synchronize(ttnn.record_event(d, 1)),
    ],
    ids=["all", "the queue", "an event"],
)
def test_what_the_host_waited_for_is_over_for_both_queues(device, wait):
    x = send(device, 1)
    ttnn.synchronize_device(device)
    ttnn.copy_host_to_device_tensor(host(2), x, 1)
    wait(device)
    assert number(ttnn.relu(x)) == 2


def test_a_trace_races_as_its_calls_do(device):
    x = send(device, 1)
    trace, y = captured(device, x)
    ttnn.synchronize_device(device)
    ttnn.copy_host_to_device_tensor(host(2), x, 1)
    with pytest.raises(RuntimeError, match="queue 0 reads a tensor that command queue 1 may still be writing"):
        ttnn.execute_trace(device, trace, cq_id=0)
    ttnn.wait_for_event(0, ttnn.record_event(device, 1))
    ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
    with pytest.raises(RuntimeError, match="queue 1 reads a tensor that command queue 0 may still be writing"):
        ttnn.to_torch(y, cq_id=1)


def test_calls_go_to_the_queue_of_their_block(device):
    x = send(device, 1)
    ttnn.synchronize_device(device)
    with ttnn.command_queue(1):
        y = ttnn.relu(x)
    with pytest.raises(RuntimeError, match="queue 0 reads a tensor that command queue 1 may still be writing"):
        ttnn.relu(y)


def test_a_read_that_nobody_waited_for_has_not_arrived(device):
    x = send(device, 3)
    there = ttnn.from_device(x, blocking=False)
    with pytest.raises(RuntimeError, match="the read from the device was not waited for"):
        ttnn.to_torch(there)
    ttnn.synchronize_device(device)
    assert number(there) == 3


def test_the_modelled_clock_overlaps_queues_and_adds_one_queues_commands(device):
    big = ttnn.from_torch(torch.zeros(2048, 2048), **TILES)
    first, second = (ttnn.allocate_tensor_on_device(big.spec, device) for _ in range(2))
    start = device.modelled_ns
    ttnn.copy_host_to_device_tensor(big, first, 0)
    one = device.modelled_ns - start
    ttnn.copy_host_to_device_tensor(big, second, 1)
    assert device.modelled_ns - start == one
    ttnn.copy_host_to_device_tensor(big, second, 1)
    assert device.modelled_ns - start == 2 * one
    assert device.last_ns == one
