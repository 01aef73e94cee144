"""ttnn-visualizer's memory report, schema 3.3: its tables, and how it spells memories and layouts."""

from __future__ import annotations

from proveout.types import HOST, TensorSpec

SCHEMA_VERSION = "3.3"
DEVICE = 0
BUFFER_TYPES = {"dram": 0, "l1": 1, "host": 2}
BUFFER_LAYOUTS = {"interleaved": 0, "height": 2, "width": 3, "block": 4}
MEMORY_LAYOUTS = {
    "interleaved": "INTERLEAVED",
    "height": "HEIGHT_SHARDED",
    "width": "WIDTH_SHARDED",
    "block": "BLOCK_SHARDED",
}

TABLES: dict[str, str] = {
    "devices": "device_id int, num_y_cores int, num_x_cores int, num_y_compute_cores int, num_x_compute_cores int, "
    "worker_l1_size int, l1_num_banks int, l1_bank_size int, address_at_first_l1_bank int, "
    "address_at_first_l1_cb_buffer int, num_banks_per_storage_core int, num_compute_cores int, num_storage_cores int, "
    "total_l1_memory int, total_l1_for_tensors int, total_l1_for_interleaved_buffers int, "
    "total_l1_for_sharded_buffers int, cb_limit int",
    "operations": "operation_id int, name text, duration float",
    "operation_arguments": "operation_id int, name text, value text",
    "tensors": "tensor_id int, shape text, dtype text, layout text, memory_config text, device_id int, address int, "
    "buffer_type int",
    "device_tensors": "tensor_id int, device_id int, address int",
    "buffers": "operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int, "
    "buffer_layout int",
    "buffer_chunks": "operation_id int, device_id int, address int, bank_id int, core_x int, core_y int, "
    "chunk_address int, chunk_size int, page_size int, num_pages int, buffer_type int",
    "input_tensors": "operation_id int, input_index int, tensor_id int",
    "output_tensors": "operation_id int, output_index int, tensor_id int",
    "local_tensor_comparison_records": "tensor_id int, golden_tensor_id int, matches bool, desired_pcc bool, "
    "actual_pcc float",
    "global_tensor_comparison_records": "tensor_id int, golden_tensor_id int, matches bool, desired_pcc bool, "
    "actual_pcc float",
    "captured_graph": "operation_id int, captured_graph text",
    "stack_traces": "operation_id int, stack_trace text, source_file_id int",
    "errors": "operation_id int, operation_name text, error_type text, error_message text, stack_trace text, "
    "timestamp text",
    "tensor_lifetime": "tensor_id int, producer_operation_id int, last_use_operation_id int, "
    "deallocate_operation_id int, producer_source_file text, producer_source_line int, last_use_source_file text, "
    "last_use_source_line int",
    "tensor_consumers": "tensor_id int, operation_id int, input_index int",
    "tensor_producers": "tensor_id int, operation_id int, output_index int",
    "nodes": "operation_id int, unique_id int, node_operation_id int, name text",
    "edges": "operation_id int, source_unique_id int, sink_unique_id int, source_output_index int, "
    "sink_input_index int, key int",
}
"""Columns of each table; all of these end with the host's rank."""
PLAIN_TABLES = {"source_files": "id int, path text, contents text", "report_metadata": "key text, value text"}


def memory_config(spec: TensorSpec) -> str | None:
    """As ttnn prints it."""
    if spec.memory == HOST:
        return None
    shard = "std::nullopt"
    if spec.memory.shard is not None:
        (height, width), (columns, rows) = spec.memory.shard.shape, spec.memory.shard.grid
        grid = f"{{[(x=0,y=0) - (x={columns - 1},y={rows - 1})]}}"
        shard = f"ShardSpec(grid={grid},shape={{{height}, {width}}},orientation=ShardOrientation::ROW_MAJOR)"
    layout, buffer = MEMORY_LAYOUTS[spec.memory.sharding], spec.memory.buffer.upper()
    return (
        f"MemoryConfig(memory_layout=TensorMemoryLayout::{layout},buffer_type=BufferType::{buffer},shard_spec={shard},"
        "nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0)"
    )
