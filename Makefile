# Set-up, and what takes more than one command.
#
#   make quickstart   set-up, then text -> pre-trained, fine-tuned, exported model
#   make test         set-up, then the tests
#   make check        format, lint, types and tests, as CI does
#   make test-wheel   the wheel by itself, from pre-training to an answer
#   make test-serving DATA=<folder>  exported models in C++, over REST and gRPC,
#                     on rows of public sets; without DATA on made texts alone
#   make test-dear    what make test has no time for
#   make sums         sums of what commands compute: build/sums.json, or COMPARE=<it>
#   make test-experiments  20 steps of every row of the paper's comparisons
#   make test-class-weights DATA=<folder>   what they are worth, on SST-2
#   make test-interop torch and transformers, then the comparison with them
#   make test-beam    Apache Beam and Dask, then its builder on three engines
#   make docs         the site of docs/ and the Python API, its links checked
#   make benchmarks   how fast it all is: pages in build/benchmarks, 20 minutes;
#                     after make interop beside transformers, too
#   make tutorial     docs/tutorial.ipynb, executed
#   make results DATA=<folder>   the table of docs/results.md, from public sets
#   make experiments DATA=<folder>   the paper's comparisons: docs/experiments.md
#   make record       the rows of docs/records.md, from the docstrings
#   make ner DATA=<folder>   when pre-training helps CoNLL-2003: docs/ner.md
#   make ner-lengths DATA=<folder>   the same of longer pre-training
#   make schedule     three lengths of pre-training from one trunk: docs/scaling.md
#   make imdb DATA=<folder>   reviews of films, with few labels and many: docs/imdb.md

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/installed

export TF_CPP_MIN_LOG_LEVEL ?= 3

.DELETE_ON_ERROR:

# Its commands are in tools/quickstart/quickstart_steps.py. A step whose result
# exists is not run again.
.PHONY: quickstart
quickstart: $(INSTALLED)
	@$(PYTHON) -m electra_tf quickstart

# --- Set-up -------------------------------------------------------------------

$(INSTALLED): requirements.lock setup.cfg setup.py pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' || \
	  { echo "Expected Python 3.11 or 3.12, received $$($(PYTHON3) --version): set PYTHON3=/path/to/python3.11" >&2; exit 1; }
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

# --- Results on public sets: docs/results.md ----------------------------------

.PHONY: results
results: $(INSTALLED)
	@test -n "$(DATA)" || { echo "Expected the folder of the public sets: make results DATA=<folder>" >&2; exit 1; }
	PYTHON=$(PYTHON) tools/experiments/run_results.sh "$(DATA)"

# --- When pre-training helps CoNLL-2003: docs/ner.md ---------------------------

RESULTS_DATA := PYTHON=$(PYTHON) tools/experiments/run_results.sh

build/results/english/heldout_tfrecords/manifest.json: | $(INSTALLED)
	@test -n "$(DATA)" || { echo "Expected the folder of the public sets: make ner DATA=<folder>" >&2; exit 1; }
	$(RESULTS_DATA) "$(DATA)" english_data

build/results/english_cased/heldout_tfrecords/manifest.json: build/results/english/heldout_tfrecords/manifest.json
	$(RESULTS_DATA) "$(DATA)" cased_data

.PHONY: ner
ner: build/results/english_cased/heldout_tfrecords/manifest.json
	$(PYTHON) tools/experiments/run_ner.py --parallel=2

# --- Three lengths from one trunk: docs/scaling.md -----------------------------

SCHEDULE := build/schedule
SCHEDULE_EXAMPLES := $(PYTHON) tools/build_pretraining_dataset.py --vocab-file=$(SCHEDULE)/vocab.txt --max-seq-length=64 --no-blanks-separate-docs --num-processes=2

$(SCHEDULE)/corpus/manifest.json: | $(INSTALLED)
	$(PYTHON) tools/quickstart/build_docstring_corpus.py --output_dir=$(SCHEDULE)/corpus

$(SCHEDULE)/vocab.txt: $(SCHEDULE)/corpus/manifest.json
	$(PYTHON) tools/build_vocab.py --corpus_dir=$(SCHEDULE)/corpus/train --vocab_file=$@ --vocab_size=4096

$(SCHEDULE)/heldout_tfrecords/manifest.json: $(SCHEDULE)/vocab.txt
	$(SCHEDULE_EXAMPLES) --corpus-dir=$(SCHEDULE)/corpus/train --output-dir=$(SCHEDULE)/train_tfrecords
	$(SCHEDULE_EXAMPLES) --corpus-dir=$(SCHEDULE)/corpus/heldout --output-dir=$(SCHEDULE)/heldout_tfrecords

.PHONY: schedule
schedule: $(SCHEDULE)/heldout_tfrecords/manifest.json
	$(PYTHON) tools/experiments/run_schedule.py --parallel=2

# --- The paper's comparisons: docs/experiments.md ------------------------------

SUITE := objectives
BUDGET := 6e12
SEEDS := 3
EXPERIMENTS := build/experiments
BUILD_EXAMPLES := $(PYTHON) tools/build_pretraining_dataset.py --vocab-file=$(EXPERIMENTS)/vocab.txt --max-seq-length=128 --no-blanks-separate-docs --num-processes=2

$(EXPERIMENTS)/docstrings/manifest.json: | $(INSTALLED)
	$(PYTHON) tools/quickstart/build_docstring_corpus.py --output_dir=$(EXPERIMENTS)/docstrings --heldout_fraction=0.05

$(EXPERIMENTS)/vocab.txt: $(EXPERIMENTS)/docstrings/manifest.json
	@test -n "$(DATA)" || { echo "Expected the folder of the public sets: make experiments DATA=<folder>" >&2; exit 1; }
	$(PYTHON) tools/experiments/build_experiment_data.py --data_dir="$(DATA)" --docstrings_dir=$(EXPERIMENTS)/docstrings --output_dir=$(EXPERIMENTS)
	$(PYTHON) tools/build_vocab.py --corpus_dir=$(EXPERIMENTS)/corpus --vocab_file=$@ --vocab_size=4096 --character-coverage=0.99999

$(EXPERIMENTS)/heldout_tfrecords/manifest.json: $(EXPERIMENTS)/vocab.txt
	$(BUILD_EXAMPLES) --corpus-dir=$(EXPERIMENTS)/corpus --output-dir=$(EXPERIMENTS)/train_tfrecords --num-out-files=8
	$(BUILD_EXAMPLES) --corpus-dir=$(EXPERIMENTS)/corpus/texts --output-dir=$(EXPERIMENTS)/texts_tfrecords --num-out-files=8
	$(BUILD_EXAMPLES) --corpus-dir=$(EXPERIMENTS)/docstrings/heldout --output-dir=$(EXPERIMENTS)/heldout_tfrecords --num-out-files=2

.PHONY: experiments
experiments: $(EXPERIMENTS)/heldout_tfrecords/manifest.json
	$(PYTHON) tools/experiments/run_experiments.py --suite=$(SUITE) --budget_flops=$(BUDGET) --seeds=$(SEEDS) --parallel=2

# Docstrings and WikiText-2 alone; docs/experiments_results.md, "CoNLL-2003 after longer
# pre-training".
.PHONY: ner-lengths
ner-lengths: $(EXPERIMENTS)/heldout_tfrecords/manifest.json
	@test -n "$(DATA)" || { echo "Expected the folder of the public sets: make ner-lengths DATA=<folder>" >&2; exit 1; }
	$(PYTHON) tools/experiments/run_experiments.py --suite=objectives --rows=electra,bert --budget_flops=2.4e13,9.6e13 --seeds=1 --tasks=ner --parallel=2 \
	  --output_dir=$(EXPERIMENTS)/texts_runs --gin_param="PretrainingDataConfig.train_files='$(EXPERIMENTS)/texts_tfrecords/*tfrecord*'"
	$(PYTHON) tools/experiments/run_ner_lengths.py --conll_dir="$(DATA)/conll2003" --parallel=2

# --- Reviews of films: docs/imdb.md --------------------------------------------

IMDB := build/imdb

$(IMDB)/labelled/test.tsv: | $(INSTALLED)
	@test -n "$(DATA)" || { echo "Expected the folder of the public sets: make imdb DATA=<folder>" >&2; exit 1; }
	$(PYTHON) tools/experiments/build_imdb_data.py --data_dir="$(DATA)" --output_dir=$(IMDB)

$(IMDB)/vocab.txt: $(IMDB)/labelled/test.tsv
	$(PYTHON) tools/build_vocab.py --corpus_dir=$(IMDB)/corpus --vocab_file=$@ --vocab_size=8192 --character-coverage=0.9999

# A blank line ends a review: no example has two of them.
$(IMDB)/tfrecords/manifest.json: $(IMDB)/vocab.txt
	$(PYTHON) tools/build_pretraining_dataset.py --corpus-dir=$(IMDB)/corpus --vocab-file=$(IMDB)/vocab.txt --output-dir=$(IMDB)/tfrecords --max-seq-length=128 --num-out-files=8 --num-processes=2 --heldout-fraction=0.01

# PRETRAINING=2 pre-trains with another seed, and fine-tunes that.
.PHONY: imdb
imdb: SEEDS := 5
imdb: PRETRAINING := 1
imdb: $(IMDB)/tfrecords/manifest.json
	$(PYTHON) tools/experiments/run_imdb.py --seeds=$(SEEDS) --pretraining=$(PRETRAINING) --parallel=2 --earlier=docs/figures/imdb.json

# --- What a few CPU minutes of docstrings teach: docs/records.md ---------------

# Rows, separated by commas; all where it is empty. Figures whose seeds are not run
# again: EARLIER=docs/figures/records.json.
ROWS :=
EARLIER :=

.PHONY: record
record: $(INSTALLED)
	$(PYTHON) -m electra_tf quickstart
	$(PYTHON) tools/experiments/run_records.py --rows=$(ROWS) --seeds=$(SEEDS) --earlier=$(EARLIER)

# --- How fast it is: docs/performance.md --------------------------------------

# Contestants whose packages are missing are named and left out. Those of training
# take 16 GB together.
INTEROP_PYTHON = $(PYTHON)
BENCHMARKS := build/benchmarks
AGAINST_TRANSFORMERS = --interop-python=$(INTEROP_PYTHON) --contestants

.PHONY: benchmarks benchmark-training benchmark-finetuning benchmark-data benchmark-serving
benchmarks: benchmark-training benchmark-finetuning benchmark-data benchmark-serving
	@cat $(BENCHMARKS)/*.md

# One after another, whatever -j says: they share the cores.
.NOTPARALLEL: benchmarks

benchmark-training: $(INSTALLED)
	@mkdir -p $(BENCHMARKS)
	$(PYTHON) tools/benchmarks/training.py --output=$(BENCHMARKS)/training.json --batch-size=32 --num-rounds=5 --num-warm-up-steps=1 --sections=speed,recompilation,input,around \
	  $(AGAINST_TRANSFORMERS)=reference,transformers,transformers_bfloat16,ours,ours_bfloat16

benchmark-finetuning: $(INSTALLED)
	@mkdir -p $(BENCHMARKS)
	$(PYTHON) tools/benchmarks/finetuning.py --output=$(BENCHMARKS)/finetuning.json --num-rounds=6 \
	  $(AGAINST_TRANSFORMERS)=padded,transformers,transformers_bfloat16,ours,ours_bfloat16

benchmark-data: $(INSTALLED)
	@mkdir -p $(BENCHMARKS)
	$(PYTHON) tools/benchmarks/data.py --output=$(BENCHMARKS)/data.json --large-mb=50 --num-rounds=5

benchmark-serving: $(INSTALLED)
	@mkdir -p $(BENCHMARKS)
	$(PYTHON) tools/benchmarks/serving.py --output=$(BENCHMARKS)/serving.json --interop-python=$(INTEROP_PYTHON)

# --- Development --------------------------------------------------------------

# Packages of other libraries, to compare with.
.PHONY: interop
interop: $(VENV)/interop-installed

.PHONY: test test-dear test-interop test-beam test-wheel test-serving test-experiments test-class-weights check format lint types clean
test: $(INSTALLED)
	$(PYTHON) -m pytest -q --numprocesses=2 --dist=loadfile --no-loadscope-reorder --durations=10

INTEROP_INSTALLED := $(VENV)/interop-installed

$(INTEROP_INSTALLED): requirements-interop.lock $(INSTALLED)
	$(PYTHON) -m pip install --quiet --constraint requirements.lock --requirement requirements-interop.lock
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

# The wheel in an environment and a directory of its own. Not in `make test`, as
# its commands take most of a minute.
test-wheel: $(INSTALLED)
	$(PYTHON) -m pytest -q tests/packaging/*_proof.py

# Exported models in the C++ runtime, and the same answer everywhere. Not in
# `make test`, as they compile a program and take minutes.
test-serving: $(INSTALLED)
	ELECTRA_TF_DATA="$(DATA)" $(PYTHON) -m pytest -q -s tests/serving/*_proof.py

# What `make test` has no time for, and the Keras models on two replicas.
test-dear: $(INSTALLED)
	$(PYTHON) -m pytest -q --numprocesses=2 --dist=loadfile -m dear
	$(PYTHON) -m pytest -q --numprocesses=2 tests/keras_models/*_proof.py

# For COMPARE=build/sums.json after a change, on the same machine.
.PHONY: sums
sums: $(INSTALLED)
	@mkdir -p build
	$(PYTHON) -m tests.end_to_end.sums $(if $(COMPARE),--compare=$(COMPARE),--output=build/sums.json)

# Every experiment's config for 20 steps; `make test` has 2 steps of four of them.
test-experiments: $(INSTALLED)
	ALL_EXPERIMENT_ROWS=1 $(PYTHON) -m pytest -q --numprocesses=2 tests/tools/experiments/experiments_gin_test.py

# Ten trainings on phrases of SST-2: docs/finetuning.md.
test-class-weights: $(INSTALLED)
	@test -n "$(DATA)" || { echo "Expected the folder of SST-2: make test-class-weights DATA=<folder>" >&2; exit 1; }
	ELECTRA_TF_DATA="$(DATA)" $(PYTHON) -m pytest -q -s tests/finetuning/class_weights_proof.py

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
