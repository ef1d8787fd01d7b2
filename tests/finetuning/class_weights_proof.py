"""What balanced class weights are worth where one label is rare.

Phrases of SST-2, 95 positive ones to 5 negative ones, five seeds with weights
and five without: the macro F1 on other phrases, of the same shares. Not part of
the default run: `make test-class-weights DATA=<folder with SST-2>`. The encoder
is small and begins with random weights, so that nothing else is needed.
"""

import dataclasses
import os
import pathlib

import pytest

from electra_tf import configs
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import finetune, results
from electra_tf.pretraining_data import learned_vocabulary
from electra_tf.tasks import glue
from tests import helpers

DATA = pathlib.Path(os.environ.get("ELECTRA_TF_DATA", "glue"))
# Label -> rows of training and of dev.
COUNTS = {"1": (9500, 3800), "0": (500, 200)}
NUM_SEEDS = 5
VOCAB_SIZE = 4096


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Rows, a vocabulary of their words, and the sizes of an encoder."""
    folder = tmp_path_factory.mktemp("proof")
    phrases = {e.text_a: e.label for e in glue.Sst(DATA).read_examples("train")}
    splits = {"train": [], "dev": []}
    for label, (num_train, num_dev) in COUNTS.items():
        found = [(text, of) for text, of in phrases.items() if of == label]
        splits["train"] += found[:num_train]
        splits["dev"] += found[-num_dev:]
    files = {
        f"{split}_file": helpers.write_tsv(folder / f"{split}.tsv", rows)
        for split, rows in splits.items()
    }
    vocab_file = str(folder / "vocab.txt")
    texts = "\n".join(text for text, _ in splits["train"])
    (folder / "texts.txt").write_text(texts, encoding="utf-8")
    learned_vocabulary.build(
        vocab_file,
        input_files=[str(folder / "texts.txt")],
        vocab_size=VOCAB_SIZE,
    )
    encoder = helpers.encoder_config(
        vocab_size=VOCAB_SIZE,
        hidden_size=64,
        intermediate_size=256,
        embedding_size=64,
        max_position_embeddings=64,
        # Random weights learn faster from words that differ.
        initializer_range=0.1,
    )
    helpers.write_pretrained(folder / "model", encoder, max_seq_length=64)
    return finetuning_configs.FinetuningConfig(
        init_checkpoint=str(folder / "model"),
        data=finetuning_configs.FinetuningDataConfig(
            **files, vocab_file=vocab_file, max_seq_length=64
        ),
        # The recipe's rates.
        optimizer=configs.OptimizerConfig(
            None, layerwise_lr_decay=None, warmup_proportion=0.1
        ),
        run=configs.RunConfig(str(folder / "none"), keep_checkpoint_max=1),
        num_trials=NUM_SEEDS,
        from_scratch=True,
    )


def test_balanced_weights_raise_the_macro_f1(config):
    found = {}
    for weights in (None, "balanced"):
        folder = f"{pathlib.Path(config.init_checkpoint).parent}/{weights}"
        run = dataclasses.replace(
            config,
            run=dataclasses.replace(config.run, model_dir=folder),
            class_weights=weights,
        )
        os.makedirs(folder)
        found[weights] = finetune.finetune(run, lambda: None)
        print(f"\nclass_weights={weights}")
        print(results.format_results(found[weights]))
    without, balanced = (found[weights]["dev"] for weights in found)
    gain = balanced["macro_f1_mean"] - without["macro_f1_mean"]
    spread = balanced["macro_f1_stdev"] + without["macro_f1_stdev"]
    print(f"\nmacro F1: {gain:+.2f}, both deviations together {spread:.2f}")
    assert gain > spread
