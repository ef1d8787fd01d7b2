# Set-up, and what takes more than one command.
#
#   make              this list, as make help
#   make quickstart   set-up, then text -> pre-trained, fine-tuned, exported model
#   make test         set-up, then the tests
#   make check        format, lint, types and tests, as CI does
#   make test-wheel   the wheel by itself, from pre-training to an answer
#   make test-serving DATA=<folder>  exported models in C++ and over REST,
#                     on rows of public sets; without DATA on made texts alone
#   make test-dear    what make test has no time for
#   make sums         sums of what commands compute: build/sums.json, or COMPARE=<it>
#   make test-experiments  20 steps of every row of the paper's comparisons
#   make test-interop torch and transformers, then the comparison with them
#   make test-beam    Apache Beam and Dask, then its builder on three engines
#   make test-tpu     JAX and libtpu, then steps compiled for a TPU, without one
#   make docs         the site of docs/ and the Python API, its links checked
#   make benchmarks   how fast it all is: pages in build/benchmarks, 20 minutes;
#                     after make interop beside transformers, too
#   make tutorial     docs/tutorial.ipynb, executed
#   make experiments DATA=<folder of public sets> SUITE=objectives   compares at
#                     equal compute, or on public sets: docs/guides/reproduce-paper.md

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/installed

export TF_CPP_MIN_LOG_LEVEL ?= 3

.DELETE_ON_ERROR:

# The lines at the head of this file, up to the first empty one.
.DEFAULT_GOAL := help
.PHONY: help
help:
	@sed -n '/^$$/q; s/^#   //p' $(firstword $(MAKEFILE_LIST))

# Its commands are in tools/quickstart/quickstart_steps.py. A step whose result
# exists is not run again.
.PHONY: quickstart
quickstart: $(INSTALLED)
	@$(PYTHON) -m electra_tf quickstart

# --- Set-up -------------------------------------------------------------------

$(INSTALLED): requirements.lock setup.cfg setup.py pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Expected Python 3.11 to 3.13, received $$($(PYTHON3) --version), for which there is no TensorFlow 2.20: set PYTHON3=/path/to/python3.13" >&2; exit 1; }
	$(PYTHON3) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --requirement requirements.lock
	$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# --- The site of the documents, and the tutorial --------------------------------

# An environment of its own, without TensorFlow: docstrings are read, not imported.
DOCS_VENV := .venv-docs
DOCS_INSTALLED := $(DOCS_VENV)/installed

$(DOCS_INSTALLED): requirements-docs.lock
	$(PYTHON3) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --requirement requirements-docs.lock
	@touch $@

.PHONY: docs-packages docs tutorial-packages tutorial
docs-packages: $(DOCS_INSTALLED)

# Writes build/site/index.html.
docs: $(DOCS_INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build

TUTORIAL_INSTALLED := $(VENV)/tutorial-installed

$(TUTORIAL_INSTALLED): requirements-docs.lock $(INSTALLED)
	$(PYTHON) -m pip install --quiet --constraint requirements.lock --constraint requirements-docs.lock ipykernel nbclient
	@touch $@

tutorial-packages: $(TUTORIAL_INSTALLED)

# A copy of the result in docs/ renews the outputs there.
tutorial: $(TUTORIAL_INSTALLED)
	$(PYTHON) docs/run_tutorial.py --output=build/tutorial.ipynb

# --- Suites of runs: docs/guides/reproduce-paper.md -----------------------------

SUITE := objectives

# Data are built first, where they are not there. BUDGET and SEEDS are the suite's
# own unless they are given.
.PHONY: experiments
experiments: $(INSTALLED)
	@test -n "$(DATA)" || { echo "Expected the folder of the public sets: make experiments DATA=<folder>" >&2; exit 1; }
	$(PYTHON) tools/experiments/run_experiments.py --suite=$(SUITE) --data_dir="$(DATA)" --parallel=2 \
	  $(if $(BUDGET),--budget_flops=$(BUDGET)) $(if $(SEEDS),--seeds=$(SEEDS))

# --- How fast it is: docs/explain/performance.md ---------------------------------

# Contestants whose packages are missing are named and left out. Those of training
# take 16 GB together.
INTEROP_PYTHON = $(PYTHON)
BENCHMARKS := training finetuning data latency

.PHONY: benchmarks $(BENCHMARKS:%=benchmark-%)
benchmarks: $(BENCHMARKS:%=benchmark-%)
	@cat build/benchmarks/*.md

# One after another, whatever -j says: they share the cores.
.NOTPARALLEL: benchmarks

$(BENCHMARKS:%=benchmark-%): benchmark-%: $(INSTALLED)
	$(PYTHON) tools/benchmarks/bench.py $* --output=build/benchmarks/$*.md --interop_python=$(INTEROP_PYTHON)

# --- Development --------------------------------------------------------------

# Packages of other libraries, to compare with.
.PHONY: interop
interop: $(VENV)/interop-installed

.PHONY: test test-dear test-interop test-beam test-tpu test-wheel test-serving test-experiments check format lint types clean
test: $(INSTALLED)
	$(PYTHON) -m pytest -q --numprocesses=2 --dist=loadfile --no-loadscope-reorder --durations=10

INTEROP_INSTALLED := $(VENV)/interop-installed

$(INTEROP_INSTALLED): requirements-interop.lock $(INSTALLED)
	$(PYTHON) -m pip install --quiet --retries=1 --constraint requirements.lock --requirement requirements-interop.lock
	@touch $@

# Files that pytest does not collect by itself: `make test` needs neither package.
test-interop: $(INTEROP_INSTALLED)
	$(PYTHON) -m pytest -q tests/interop/*_interop.py

# An environment of its own: see requirements-beam.lock.
BEAM_VENV := .venv-beam
BEAM_INSTALLED := $(BEAM_VENV)/installed

.PHONY: beam
beam: $(BEAM_INSTALLED)

$(BEAM_INSTALLED): requirements-beam.lock setup.cfg pyproject.toml
	$(PYTHON3) -m venv $(BEAM_VENV)
	$(BEAM_VENV)/bin/python -m pip install --quiet --requirement requirements-beam.lock
	$(BEAM_VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

test-beam: $(BEAM_INSTALLED)
	$(BEAM_VENV)/bin/python -m pytest -q tests/pretraining_data/beam_engines.py

# An environment of its own, on top of the first one's packages.
TPU_VENV := .venv-tpu
TPU_INSTALLED := $(TPU_VENV)/installed
PURELIB := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

.PHONY: tpu-packages
tpu-packages: $(TPU_INSTALLED)

$(TPU_INSTALLED): requirements-tpu-compile.lock $(INSTALLED)
	$(PYTHON3) -m venv $(TPU_VENV)
	$(TPU_VENV)/bin/python -m pip install --quiet --no-deps --requirement requirements-tpu-compile.lock
	realpath "$$($(PYTHON) $(PURELIB))" > "$$($(TPU_VENV)/bin/python $(PURELIB))/packages.pth"
	@touch $@

# DEAR="dear or not dear" compiles every objective and every head.
test-tpu: $(TPU_INSTALLED)
	$(TPU_VENV)/bin/python -m pytest -q $(if $(DEAR),-m "$(DEAR)") tests/tpu/tpu_programs.py

# The wheel in an environment and a directory of its own. Not in `make test`, as
# its commands take most of a minute.
test-wheel: $(INSTALLED)
	$(PYTHON) -m pytest -q tests/packaging/*_proof.py

# Exported models in the C++ runtime, and the same answer everywhere. Not in
# `make test`, as they compile a program and take minutes.
test-serving: $(INSTALLED)
	ELECTRA_TF_DATA="$(DATA)" $(PYTHON) -m pytest -q -s tests/serving/*_proof.py

# What `make test` has no time for.
test-dear: $(INSTALLED)
	$(PYTHON) -m pytest -q --numprocesses=2 --dist=loadfile --no-loadscope-reorder --durations=10 -m dear

# For COMPARE=build/sums.json after a change, on the same machine.
.PHONY: sums
sums: $(INSTALLED)
	@mkdir -p build
	$(PYTHON) -m tests.end_to_end.sums $(if $(COMPARE),--compare=$(COMPARE),--output=build/sums.json)

# Every experiment's config for 20 steps.
test-experiments: $(INSTALLED)
	ALL_EXPERIMENT_ROWS=1 $(PYTHON) -m pytest -q tests/tools/experiments/experiments_gin_test.py

check: format lint types test

format: $(INSTALLED)
	$(PYTHON) -m ruff format --check .

lint: $(INSTALLED)
	$(PYTHON) -m ruff check .
	$(VENV)/bin/lint-imports --no-logo

types: $(INSTALLED)
	$(PYTHON) -m mypy

clean:
	rm -rf build
