# Two commands do everything: `make demo` and `make test`. The rest are their parts.
PYTHON ?= python3
BIN := .venv/bin
# Hundreds of processes import the package: without bytecode each would compile it anew.
export PYTHONDONTWRITEBYTECODE :=
# Processes that run tests side by side: make test WORKERS=3
WORKERS ?= 2

.PHONY: help demo app test test-interop interop-tools check bench faults lint clean

help:
	@echo "make demo    install, then compile, check, time and bring up models on the embedded chip; leaves demo/report.html"
	@echo "make app     the web app: five tasks to try, and an explorer of all results (the demo's, once it has run)"
	@echo "make test    every test that runs here"
	@echo "make test-interop   only those that hand our exports to the real tt-perf-report and ttnn-visualizer"
	@echo "make check   the quick part of it (2 minutes at most)"
	@echo "make bench   the benchmarks: ratios measured in one run"
	@echo "make faults  breaks things on purpose and writes what is lost to docs/reference/faults.md (about 20 minutes)"

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[corpora,bringup,tune]'
	@$(BIN)/python -c "import shutil, sysconfig; shutil.copy('src/proveout_vision.pth', sysconfig.get_paths()['purelib'])"
	@touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  (command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium) || \
	  echo "no Chromium: the tests marked 'browser' will say so"
	@touch $@

demo: export PROVEOUT_CACHE := demo/cache
demo: .venv/installed
	rm -rf demo
	$(BIN)/proveout benchmark --all --search-dir selftest --device sim --iterations 20 --jobs 2
	$(BIN)/proveout compile --dry-run bert.py resnet50.py --search-dir transformers --search-dir torch_hub --weights meta --device sim:n150,sim:p150 --jobs 2
	$(BIN)/proveout report -o demo
	$(BIN)/python examples/four_configurations.py demo
	$(BIN)/proveout bringup examples/encoder.py -o demo/bringup
	@echo
	@echo "Open demo/report.html (all models), demo/benchmark.html (four configurations) and demo/bringup/report.html in a"
	@echo "browser. Next:"
	@echo "  make app                                                        all of it in the browser, and five tasks to try"
	@echo "  $(BIN)/proveout compile corpora/selftest/attention.py --dry-run    what converts, what stays on the host and why"
	@echo "  $(BIN)/proveout benchmark YOUR_SCRIPT.py --device sim              your own model, as it is"
	@echo "  make test                                                       every test"

.venv/installed-app: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[app]'
	@touch $@

app: .venv/installed-app
	$(BIN)/proveout app $(addprefix --cache-dir ,$(wildcard demo/cache))

# All of PyTorch's operator samples are left out of it (tens of minutes); a run that stops goes on where it was:
#   .venv/bin/python -m pytest -n 2 -m whole_table tests/ops
# So are nine tenths of the corpora's scripts: -m whole_corpora tests/corpora
# And the long runs of the fuzzers, thousands of seeds each: -m fuzz tests/fuzz; small programs on many cores, without
# pytest: python tests/fuzz/long.py --jobs 16
# And what is sampled of other long families: -m whole tests
test: .venv/installed-test lint interop-tools
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=25 tests

test-interop: .venv/installed-test interop-tools
	$(BIN)/python -m pytest -m interop tests/interop

# Each tool pins its own versions of the same packages, so each has an environment of its own, made once. Without PyPI
# there is none, and the tests that need it say so and are skipped.
interop-tools: .venv-interop/tt-perf-report/made .venv-interop/ttnn-visualizer/made

.venv-interop/%/made: tests/interop/%.txt
	@$(PYTHON) -m venv .venv-interop/$* && \
	  .venv-interop/$*/bin/python -m pip install --quiet --requirement $< && touch $@ || \
	  echo "no $*: the tests marked 'interop' that need it will say so"

check: .venv/installed-test lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not e2e and not browser" tests/test_tiny.py tests/test_architecture.py tests/unit tests/models

lint: .venv/installed-test
	$(BIN)/ruff check --quiet src tests corpora training examples
	$(BIN)/ruff format --quiet --check src tests corpora training examples
	$(BIN)/mypy

bench: .venv/installed-test
	$(BIN)/python tests/bench/sim_vs_eager.py
	$(BIN)/python tests/bench/compile_cost.py
	$(BIN)/python tests/bench/predict_speed.py
	$(BIN)/python tests/bench/harvest.py
	$(BIN)/python tests/bench/harness.py
	$(BIN)/python tests/bench/sweep.py

faults: .venv/installed-test
	$(BIN)/python tests/faults/faults.py

clean:
	rm -rf .venv .venv-interop demo build dist src/*.egg-info
