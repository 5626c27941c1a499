# Each target builds its own environment in .venv when it needs one: python3 and make are enough.
# The rivals of bench-linear, bench-kernel and bench-large live apart, in .venv-bench.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
BENCH := .venv-bench

.PHONY: demo docs test browser lint bench bench-linear bench-kernel bench-large bench-tuning bench-phrases bench-ordinal bench-hyperpass bench-out-of-core fuzz clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(BENCH)/ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade pip
	$(BENCH)/bin/python -m pip install --quiet --editable ".[bench]"
	touch $@

demo: $(READY)
	$(BIN)/primalsvm demo --output output/demo

test: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

# Chromium, in which the tests open reports and pages. Where it cannot be installed they skip, and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get \
	&& export DEBIAN_FRONTEND=noninteractive && timeout 60 apt-get update -qq && timeout 240 apt-get install -qq \
	--no-install-recommends -o DPkg::Lock::Timeout=120 chromium; } </dev/null >/dev/null 2>&1 \
	|| echo "no Chromium could be installed: tests in a browser will be skipped"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -q -j auto docs output/docs
	@echo "open output/docs/index.html"

bench: $(READY)
	$(BIN)/python -m benchmarks.passes $(ARGS)

bench-hyperpass: $(READY)
	$(BIN)/python -m benchmarks.hyperpass $(ARGS)

bench-out-of-core: $(READY)
	$(BIN)/python -m benchmarks.out_of_core $(ARGS)

bench-linear: $(BENCH)/ready
	$(BENCH)/bin/python -m benchmarks.linear $(ARGS)

bench-kernel: $(BENCH)/ready
	$(BENCH)/bin/python -m benchmarks.kernel $(ARGS)

bench-large: $(BENCH)/ready
	$(BENCH)/bin/python -m benchmarks.large $(ARGS)

bench-tuning: $(READY)
	$(BIN)/python -m benchmarks.tuning $(ARGS)

bench-phrases: $(READY)
	$(BIN)/python -m benchmarks.phrases $(ARGS)

bench-ordinal: $(READY)
	$(BIN)/python -m benchmarks.ordinal $(ARGS)

fuzz: $(READY)
	$(BIN)/python tests/fuzz.py $(ARGS)

clean:
	rm -rf $(VENV) $(BENCH) output docs/gallery docs/generated
