# The tutorial: every target is one step, and its recipe is the command that you
# would type. A step whose result exists is not run again.
#
#   make quickstart   set-up, then text -> pre-trained, fine-tuned, exported model
#   make test         set-up, then the tests
#   make check        format, lint, types and tests, as CI does
#   make test-serving exported models in C++, over REST and gRPC, on real rows
#   make test-experiments  20 steps of every row of the paper's comparisons
#   make test-class-weights DATA=<folder>   what they are worth, on SST-2
#   make test-interop torch and transformers, then the comparison with them
#   make test-beam    Apache Beam and Dask, then its builder on three engines
#   make results DATA=<folder>   the table of docs/results.md, from public sets
#   make experiments DATA=<folder>   the paper's comparisons: docs/experiments.md

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
BUILD := build/quickstart
INSTALLED := $(VENV)/installed

export TF_CPP_MIN_LOG_LEVEL ?= 3

# $(call timed,stage,command) shows a command, runs it and keeps its seconds.
define timed
@mkdir -p $(BUILD)/seconds
@echo "\$$ $(2)"
@start=$$(date +%s); $(2); status=$$?; \
  [ $$status -eq 0 ] || exit $$status; \
  echo $$(( $$(date +%s) - start )) > $(BUILD)/seconds/$(1)
endef

.DELETE_ON_ERROR:

.PHONY: quickstart
quickstart: $(BUILD)/report.html
	@echo "The quickstart is complete: open $(BUILD)/report.html (figures: $(BUILD)/summary.json; the classifier's own page: $(BUILD)/finetune_pretrained/report.html)."

# --- Set-up -------------------------------------------------------------------

$(INSTALLED): requirements.lock setup.cfg pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Expected Python 3.11 or later, received $$($(PYTHON3) --version): set PYTHON3=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON3) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --requirement requirements.lock
	$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# --- 1. Corpus: the prose of the docstrings that every installation has -------

$(BUILD)/corpus/manifest.json: | $(INSTALLED)
	$(call timed,corpus,$(PYTHON) tools/quickstart/build_docstring_corpus.py --output_dir=$(BUILD)/corpus --labelled_train_size=400)

# --- 2. Vocabulary ------------------------------------------------------------

$(BUILD)/vocab.txt: $(BUILD)/corpus/manifest.json
	$(call timed,vocab,$(PYTHON) tools/build_vocab.py --corpus_dir=$(BUILD)/corpus/train --vocab_file=$(BUILD)/vocab.txt --vocab_size=4096)

# --- 3. TFRecords -------------------------------------------------------------

BUILD_DATASET := $(PYTHON) tools/build_pretraining_dataset.py --vocab-file=$(BUILD)/vocab.txt --max-seq-length=64 --no-blanks-separate-docs --num-processes=2

$(BUILD)/heldout_tfrecords/manifest.json: $(BUILD)/vocab.txt
	$(call timed,tfrecords,$(BUILD_DATASET) --corpus-dir=$(BUILD)/corpus/train --output-dir=$(BUILD)/train_tfrecords && $(BUILD_DATASET) --corpus-dir=$(BUILD)/corpus/heldout --output-dir=$(BUILD)/heldout_tfrecords)

# --- 4. Pre-training, and evaluation on the held-out part ---------------------

$(BUILD)/pretrain/eval_results.json: $(BUILD)/heldout_tfrecords/manifest.json
	$(call timed,pretrain,$(PYTHON) -m electra_tf.run_pretraining --gin_file=gin/quickstart.gin)

# --- 5. Fine-tuning: from the pre-trained weights, and from scratch -----------

FINETUNE := $(PYTHON) -m electra_tf.run_finetuning --gin_file=gin/quickstart_finetuning.gin

$(BUILD)/finetune_from_scratch/results.json: $(BUILD)/pretrain/eval_results.json
	$(call timed,finetune,$(FINETUNE) && $(FINETUNE) --gin_param=FinetuningConfig.from_scratch=True --model_dir=$(BUILD)/finetune_from_scratch)

# --- 6. Export, and one query ------------------------------------------------

$(BUILD)/saved_model/1/saved_model.pb: $(BUILD)/finetune_from_scratch/results.json
	$(call timed,export,$(PYTHON) tools/export_saved_model.py --model_dir=$(BUILD)/finetune_pretrained --output=$(BUILD)/saved_model)

$(BUILD)/query.txt: $(BUILD)/saved_model/1/saved_model.pb
	$(call timed,query,$(PYTHON) tools/quickstart/query_saved_model.py --saved_model=$(BUILD)/saved_model/1 'Return the eigenvalues of a symmetric matrix.' 'Draw a legend next to the axes.' > $@)
	@cat $@

# --- 7. Report ----------------------------------------------------------------

$(BUILD)/report.html: $(BUILD)/query.txt
	@echo "\$$ $(PYTHON) tools/quickstart/write_report.py --build_dir=$(BUILD)"
	@$(PYTHON) tools/quickstart/write_report.py --build_dir=$(BUILD)

# --- Results on public sets: docs/results.md ----------------------------------

.PHONY: results
results: $(INSTALLED)
	@test -n "$(DATA)" || { echo "Expected the folder of the public sets: make results DATA=<folder>" >&2; exit 1; }
	PYTHON=$(PYTHON) tools/experiments/run_results.sh "$(DATA)"

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
	$(BUILD_EXAMPLES) --corpus-dir=$(EXPERIMENTS)/docstrings/heldout --output-dir=$(EXPERIMENTS)/heldout_tfrecords --num-out-files=2

.PHONY: experiments
experiments: $(EXPERIMENTS)/heldout_tfrecords/manifest.json
	$(PYTHON) tools/experiments/run_experiments.py --suite=$(SUITE) --budget_flops=$(BUDGET) --seeds=$(SEEDS) --parallel=2

# --- Development --------------------------------------------------------------

# Packages of other libraries, to compare with.
.PHONY: interop
interop: $(VENV)/interop-installed

.PHONY: test test-interop test-beam test-serving test-experiments test-class-weights check format lint types clean
test: $(INSTALLED)
	$(PYTHON) -m pytest -q --numprocesses=2 --dist=loadfile --durations=10

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

# Exported models in the C++ runtime, and the same answer everywhere. Not in
# `make test`, as they compile a program and take minutes.
test-serving: $(INSTALLED)
	$(PYTHON) -m pytest -q -s tests/serving/*_proof.py

# Every experiment's config for 20 steps, and XLA of every objective; `make test`
# has 2 steps of those that differ in more than a number, and XLA of three.
test-experiments: $(INSTALLED)
	ALL_EXPERIMENT_ROWS=1 $(PYTHON) -m pytest -q --numprocesses=2 tests/tools/experiments/experiments_gin_test.py tests/training/engine_test.py::test_xla_compiles_every_objective

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
