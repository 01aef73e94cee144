"""Every name, option, field and example of NeuronPerf's manual and tests, what it does here, and the test that says so.

`python tests/conformance/neuronperf/neuronperf_manual.py` writes docs/reference/neuronperf.md from these rows. Pages are
those of the manual (aws-neuron/aws-neuron-sdk, archive/neuronperf); "tests" is the package's own test file.
"""

# ruff: noqa: E501
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "neuronperf.md"


class Row(NamedTuple):
    name: str
    page: str
    here: str
    test: str


NAMES = [
    Row("benchmark", "API", "measures what `load_fn(model_filename, device_id)` loads, by position and by keyword; a model and its inputs alone are taken too", "test_generic_benchmark"),
    Row("compile", "API", "calls `compile_fn(model, inputs, models_dir, model_name, compiler_args=…)` for each variant and writes the index", "test_generic_compile"),
    Row("torch.benchmark", "Overview", "a TorchScript file, a model index (its file, or loaded), a class, a factory, an instance, an import string, a saved Compiled", "test_benchmark_a_compiled_model"),
    Row("torch.compile", "Compile guide", "compiles for a modelled Tenstorrent card; gives the index's file name", "test_compile_several_variants"),
    Row("torch.evaluate", "Evaluate guide", "one copy of each model, once through the dataset", "test_evaluate"),
    Row("cpu.benchmark", "Benchmark guide", "on this machine's CPU; instances and factories are taken too", "test_benchmark_on_the_cpu"),
    Row("gpu.benchmark", "Benchmark guide", "`cuda`; where there is no GPU it says so", "test_benchmark_on_a_gpu"),
    Row("tensorflow.benchmark", "Framework notes", "Keras files, SavedModels, Keras models and indexes of them, on the CPU; needs `proveout[tensorflow]` (1.3 GB)", "test_keras_models_are_measured"),
    Row("tensorflow.compile", "Framework notes", "saves the Keras model for each input and indexes the files; it runs as it is, since our compiler takes PyTorch", "test_keras_models_are_measured"),
    Row("mxnet.benchmark", "Framework notes", "refused in one sentence: MXNet was retired in 2023 and has no wheel for this Python", "test_mxnet_says_so"),
    Row("get_reports", "API", "reports of pairs, of pairs that were pickled or made by hand, of Records", "test_pairs_unpack_and_make_reports"),
    Row("print_reports", "API", "the eight columns, really sorted, and below them why a number is not there", "test_reports_are_printed"),
    Row("print_results", "Benchmark guide", "the same as `print_reports`", "test_reports_are_printed"),
    Row("print_report", "benchmark scripts", "the same, of one report; `write_csv` and `write_json` take one report too", "test_calls_are_counted_and_one_report_is_enough"),
    Row("write_csv", "API", "gives the file's name; without `cols` every field", "test_reports_are_written"),
    Row("write_json", "API", "gives the file's name; strict JSON", "test_reports_are_written"),
    Row("list_metrics", "Evaluate guide", "prints them; FalseDiscoveryRate and FalseOmissionRate have their right formulas, which the manual's list has not", "test_metrics"),
    Row("register_metric", "Evaluate guide", "a class that extends `BaseEvalMetric`", "test_metrics"),
    Row("register_metric_from_existing", "Evaluate guide", "`topk` with another `k`, and so on", "test_metrics"),
    Row("BaseEvalMetric", "Evaluate guide", "`process_record(output, target)` and `aggregate(metrics)`", "test_metrics"),
    Row("model_index.create", "Model index guide", "by position as in the API; more fields are kept and can be filtered by", "test_an_index_by_hand"),
    Row("model_index.save", "Model index guide", "gives the file's name; JSON is added, the file is written whole or not at all", "test_an_index_by_hand"),
    Row("model_index.load", "API", "also of indexes without `model_name` and `status`, as in the guide; a model that is not where it was is looked for beside the index", "test_an_index_written_in_an_editor"),
    Row("model_index.append", "Model index guide", "without repeats, nothing is changed in place", "test_an_index_by_hand"),
    Row("model_index.filter", "Model index guide", "fields in the singular or, as in the guide, in the plural", "test_an_index_by_hand"),
    Row("model_index.copy", "Model index guide", "models of equal names get names of their own", "test_copy_move_delete"),
    Row("model_index.move", "API", "where a copy fails, nothing is deleted", "test_copy_move_delete"),
    Row("model_index.delete", "Model index guide", "the index and its models; one that is gone is a warning", "test_copy_move_delete"),
    Row("Timer", "tests", "spans of any clock, in any unit", "test_timer"),
    Row("timestamp_convert", "tests", "numbers, arrays and lists", "test_timer"),
    Row("DummyModel", "tests", "computes in place, imports nothing", "test_dummy_model"),
    Row("benchmarking.Benchmarker", "tests", "a thread with `start`, `stop`, `status`, `n_infs`, `results`; our own loop calls the model", "test_benchmarker"),
    Row("set_verbosity", "Benchmark guide", "0, 1 or 2, on the logger `neuronperf`", "test_verbosity"),
    Row("SUPPORTED_DEVICE_TYPES", "API", "`neuron`, `cpu`, `cuda`, `gpu`, and `sim`", "test_constants"),
    Row("BENCHMARK_SECS", "API", "60, as the guide says", "test_constants"),
    Row("SUMMARY_COLS", "API", "the columns of `print_reports`; also `PRINT_COLS`", "test_constants"),
    Row("__version__", "package", "Proveout's", "test_constants"),
    Row("REPORT_COLS", "API", "NeuronPerf's columns of a CSV file; also `CSV_COLS`", "test_constants"),
]  # fmt: skip

BENCHMARK = [
    Row("model_filename", "API", "a `.pt` file is opened only in the worker, by TorchScript's own reader, which runs no Python; files of pickled modules are refused. `device_type='sim'` compiles it", "test_torchscript_on_a_chip"),
    Row("inputs", "Benchmark guide", "a tensor; a tuple for several arguments; a list, one for each batch size; a Dataset; a dict is keyword arguments (of Keras: one argument)", "test_multi_input_models"),
    Row("batch_sizes", "API", "as many as there are inputs, wherever the batch is; with an index, a filter. Without it the leading dimension counts, where NeuronPerf assumes 1: throughput would be too low by the batch", "test_a_batch_that_is_not_in_front"),
    Row("duration", "Benchmark guide", "seconds measured; loading and warm-up come on top. 0 goes once through a dataset", "test_duration_zero"),
    Row("max_infers", "benchmark scripts", "so many calls of each copy, and no more", "test_calls_are_counted_and_one_report_is_enough"),
    Row("max_duration", "benchmark scripts", "the same as `duration`; 0 with `max_infers` for as long as these take", "test_calls_are_counted_and_one_report_is_enough"),
    Row("n_models", "Benchmark guide", "a number or a list; `[1, MAX]`, and MAX is this machine's cores, GPUs or chips", "test_copies_and_workers"),
    Row("pipeline_sizes", "Benchmark guide", "on `sim:n300` the model is cut in two stages that overlap; with an index, a filter. On a CPU a model runs whole, and the size counts places (a warning says so)", "test_pipelines_of_an_index"),
    Row("cast_modes", "API", "with an index, a filter; else told in the report", "test_casts_and_levels"),
    Row("performance_levels", "API", "with an index, a filter; else told in the report", "test_casts_and_levels"),
    Row("workers_per_model", "Benchmark guide", "a number or a list; `[1, 2]`, in a pipeline as many as its stages", "test_copies_and_workers"),
    Row("env_setup_fn", "API", "`(id, config)` in the worker before anything is imported; `NEURON_RT_VISIBLE_CORES` holds its copy's cores", "test_setup_functions"),
    Row("setup_fn", "API", "`(id, config, model)`; what it prints is shown", "test_setup_functions"),
    Row("preprocess_fn", "Benchmark guide", "part of the latency, and timed alone; a tuple or a list that it gives is several arguments", "test_preprocessing_and_postprocessing"),
    Row("postprocess_fn", "Benchmark guide", "part of the latency, and timed alone", "test_preprocessing_and_postprocessing"),
    Row("dataset_loader_fn", "API", "`(inputs, workers)` gives an iterator", "test_custom_datasets"),
    Row("dataset_inputs", "package", "True: a list is a dataset, its items one after the other", "test_custom_datasets"),
    Row("loop_dataset", "Benchmark guide", "again and again until the duration ends", "test_custom_datasets"),
    Row("verbosity", "Benchmark guide", "0, 1 or 2: lines `LEVEL:neuronperf.benchmarking - …` on stderr", "test_verbosity"),
    Row("multiprocess", "Benchmark guide", "`False`: threads of this process", "test_processes"),
    Row("multiinterpreter", "Benchmark guide", "a worker is always a fresh interpreter; True overrides `multiprocess=False`", "test_processes"),
    Row("return_timers", "Benchmark guide", "pairs `(config, results)` with Timers of every call", "test_pairs_unpack_and_make_reports"),
    Row("device_type", "API", "`cpu`, `gpu`, `cuda`, `sim`, `sim:n300` …; `neuron` is where the model was compiled for, or the CPU", "test_device_types"),
    Row("stats_interval", "API", "seconds between samples of processor and memory", "test_cost_names_and_samples"),
    Row("cost_per_hour", "API", "makes `cost_per_1m_inf`; no price is guessed", "test_cost_names_and_samples"),
    Row("model_name", "Examples", "in the reports, beside `model_filename`", "test_cost_names_and_samples"),
    Row("model_class_name", "API", "with `model_class_file`: the class that a worker imports", "test_model_class_of_a_file"),
    Row("model_class_file", "API", "its Python file", "test_model_class_of_a_file"),
    Row("eval_metrics", "Evaluate guide", "the same as `evaluate(metrics=…)`", "test_evaluate"),
    Row("eval_target_col", "Evaluate guide", "which column is the target", "test_evaluate"),
]  # fmt: skip

COMPILE = [
    Row("model", "Framework notes", "a module, a class or a factory", "test_compile_several_variants"),
    Row("inputs", "API", "one set, or a list", "test_compile_several_variants"),
    Row("batch_sizes", "Compile guide", "one for each input", "test_compile_several_variants"),
    Row("pipeline_sizes", "Compile guide", "2 cuts the model for the two chips of `sim:n300`; what no card has is told and left out", "test_compile_several_variants"),
    Row("cast_modes", "Compile guide", "`none`, `matmult` (weights of products and convolutions in bfloat16), `all` (every float in bfloat16)", "test_casts_and_levels"),
    Row("performance_levels", "API", "0: the model's own precision at the highest fidelity; 1 and 2: bfloat16 at HiFi4 and HiFi2; 3: LoFi with bfloat8_b weights", "test_casts_and_levels"),
    Row("models_dir", "API", "`models`", "test_compile_several_variants"),
    Row("model_name", "API", "in the index and the files' names", "test_compile_several_variants"),
    Row("filename", "API", "of the index", "test_compile_several_variants"),
    Row("compiler_args", "Compile guide", "`--neuroncore-pipeline-cores`, `--fast-math`, `--auto-cast`, and our own settings by name; other flags are told and left out", "test_compiler_args_and_target"),
    Row("compiler_target", "Compile guide", "`n150`, `n300`, `p100`, `p150`; Amazon's chips are not modelled, so `inf2` compiles for the default with a warning", "test_compiler_args_and_target"),
    Row("verbosity", "API", "as above", "test_verbosity"),
]  # fmt: skip

FIELDS = [
    Row("status", "tests", "`finished`, or `error`; our own word (`passed`, `partial`, `failed`, `skipped`) is in `outcome`", "test_fields"),
    Row("throughput_avg, throughput_peak", "API", "completed ÷ elapsed; the best whole second", "test_fields"),
    Row("latency_ms_avg", "benchmark scripts", "the same as `e2e_avg_ms`", "test_calls_are_counted_and_one_report_is_enough"),
    Row("throughput_modelled", "here only", "items a second on modelled chips; of a full pipeline, one batch for each interval of its slowest stage", "test_pipelines_of_an_index"),
    Row("latency_ms_p0, p50, p90, p95, p99, p100", "API", "of every call; a percentile that the sample cannot support is None with the number of calls it needs", "test_fields"),
    Row("n_models, workers_per_model, pipeline_size, batch_size, model_filename, model_name", "API", "as asked", "test_fields"),
    Row("device_type, instance_type", "API", "the device, and this machine's processor", "test_fields"),
    Row("total_infs, total_s, e2e_avg_ms, infer_avg_ms, preprocess_avg_ms, postprocess_avg_ms, load_avg_ms", "API", "as in [the report](bench-report.md)", "test_fields"),
    Row("setup_avg_ms, env_setup_avg_ms", "API", "of the setup functions", "test_setup_functions"),
    Row("warmup_avg_ms, input_avg_ms", "API", "None: warm-up is counted (`warmup_infs`), and taking an input lies between two calls", "test_fields"),
    Row("cpu_percent_p50, mem_percent_p50, cpu_avg_percent, mem_avg_percent", "API", "sampled by another process", "test_fields"),
    Row("cast_mode, performance_level, input_idx, n_devices, start_dts, stop_dts", "Benchmark guide", "of this configuration", "test_fields"),
]  # fmt: skip

EXAMPLES = [
    Row("Benchmark a compiled model", "Examples", "runs as it is", "test_benchmark_a_compiled_model"),
    Row("Two configurations; a model's name", "Examples", "runs as it is", "test_copies_and_workers"),
    Row("Benchmark a model from source", "Examples", "`torch_neuron`, `torch.neuron` and `torch_neuronx` are served too: a trace is TorchScript", "test_benchmark_a_model_from_source"),
    Row("Compile and benchmark a model", "Examples", "as it stands", "test_compile_several_variants"),
    Row("Multi-input models", "Benchmark guide", "runs as it is", "test_multi_input_models"),
    Row("Preprocessing and postprocessing", "Benchmark guide", "runs as it is", "test_preprocessing_and_postprocessing"),
    Row("Worker threads; model copies", "Benchmark guide", "runs as it is", "test_copies_and_workers"),
    Row("Pipeline mode of a file", "Benchmark guide", "on the CPU it counts places; `device_type='sim:n300'` cuts the file's model", "test_torchscript_on_a_chip"),
    Row("Pipeline mode of an index", "Benchmark guide", "runs as it is", "test_pipelines_of_an_index"),
    Row("Custom datasets", "Benchmark guide", "runs as it is", "test_custom_datasets"),
    Row("Full timing results", "Benchmark guide", "runs as it is", "test_pairs_unpack_and_make_reports"),
    Row("Verbosity", "Benchmark guide", "the same lines, and our own", "test_verbosity"),
    Row("Internal process model", "Benchmark guide", "runs as it is", "test_processes"),
    Row("Benchmark on CPU or GPU; a wrapped class", "Benchmark guide", "runs as it is", "test_benchmark_on_the_cpu"),
    Row("Compile for another instance type", "Compile guide", "with a warning for Amazon's", "test_compiler_args_and_target"),
    Row("Compile several variants; join two indexes", "Compile guide", "runs as it is", "test_compile_several_variants"),
    Row("An index in an editor", "Model index guide", "runs as it is", "test_an_index_written_in_an_editor"),
    Row("Create, append, filter, copy, delete", "Model index guide", "runs as it is", "test_an_index_by_hand"),
    Row("Choose by batch size", "Model index guide", "runs as it is", "test_an_index_with_several_inputs_is_filtered"),
    Row("Evaluate; the target's column", "Evaluate guide", "runs as it is", "test_evaluate"),
    Row("Own metrics", "Evaluate guide", "runs as it is", "test_metrics"),
]  # fmt: skip

NEURON = [
    Row("trace", "Examples", "TorchScript of the model, to be saved; options for Neuron's compiler are told and left out", "test_benchmark_a_model_from_source"),
    Row("DataParallel", "benchmark scripts", "the batch in as many parts as there are `device_ids`, one after the other", "test_a_batch_in_parts"),
    Row("dynamic_batch, lazy_load, async_load, set_neuron_cores, set_multicore, move_trace_to_device", "benchmark scripts", "the trace itself: on a CPU there is nothing to place or to load later", "test_a_batch_in_parts"),
]  # fmt: skip

TABLES = {
    "Names": ("name in `neuronperf`", NAMES),
    "Options of `benchmark`": ("option", BENCHMARK),
    "Options of `compile`": ("option", COMPILE),
    "Fields of a report": ("field", FIELDS),
    "`torch_neuron`, `torch_neuronx` and `torch.neuron`": ("name", NEURON),
    "The manual's examples": ("example", EXAMPLES),
}
OPENING = """# NeuronPerf, name by name

`proveout compat on` lets `import neuronperf as npf` and `import neuronperf.torch` work in plain Python;
`import proveout.neuronperf as npf` does without it. Every row is held by a test of
[tests/conformance/neuronperf](../../tests/conformance/neuronperf); this page is written from the same rows. What a
benchmark measures, and all that goes beyond NeuronPerf (loads, intervals, verdicts), is in
[the guide](../guides/benchmark.md). Functions that no page of the manual names and that only its own modules call
(`reporting.get_report`, `model_index.generate_name`, `benchmarking.run_benchmarkers` …) are not served.
"""


def lines() -> list[str]:
    """The page."""
    found = OPENING.splitlines()
    for title, (what, rows) in TABLES.items():
        found += ["", f"## {title}", "", f"| {what} | in | here |", "|---|---|---|"]
        found += [f"| {_code(row.name, title)} | {row.page} | {row.here} |" for row in rows]
    return found


def _code(name: str, title: str) -> str:
    return name if title.endswith("examples") else ", ".join(f"`{part}`" for part in name.split(", "))


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
