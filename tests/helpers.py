"""Small models, data and files for the tests."""

import dataclasses
import gc
import json
import os
import pathlib
import subprocess
import sys
import time
import weakref

import numpy as np

from electra_tf import configs

ROOT = pathlib.Path(__file__).parents[1]

# Ids 0 to 4, then words.
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [
    f"w{chr(ord('a') + i)}" for i in range(15)
]
PAD, UNK, CLS, SEP, MASK = range(5)
LENGTH = 12
# A pre-training run of `electra_config`, but of one layer.
GIN = f"""
PretrainingConfig.model = @ElectraConfig()
PretrainingConfig.data = @PretrainingDataConfig()
PretrainingConfig.optimizer = @OptimizerConfig()
PretrainingConfig.run = @RunConfig()
ElectraConfig.encoder = @EncoderConfig()
ElectraConfig.max_seq_length = {LENGTH}
ElectraConfig.mask_prob = 0.25
ElectraConfig.generator_hidden_size = 0.5
EncoderConfig.vocab_size = {len(VOCAB)}
EncoderConfig.hidden_size = 8
EncoderConfig.num_hidden_layers = 1
EncoderConfig.num_attention_heads = 2
EncoderConfig.intermediate_size = 16
EncoderConfig.embedding_size = 6
EncoderConfig.max_position_embeddings = {LENGTH}
OptimizerConfig.learning_rate = 1e-2
PretrainingDataConfig.train_files = 'train.tfrecord'
PretrainingDataConfig.vocab_file = 'vocab.txt'
RunConfig.num_train_steps = 10
"""


def encoder_config(**changes) -> configs.EncoderConfig:
    """Two layers, 8 wide, over 20 tokens."""
    values = {
        "vocab_size": len(VOCAB),
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "embedding_size": 6,
        "max_position_embeddings": LENGTH,
    }
    return configs.EncoderConfig(**(values | changes))


def electra_config(encoder=None, **changes) -> configs.ElectraConfig:
    """Examples of 12 tokens, of which 3 are masked (1 + 2 when short)."""
    values = {
        "encoder": encoder or encoder_config(),
        "max_seq_length": LENGTH,
        "mask_prob": 0.25,
        "generator_hidden_size": 0.5,
    }
    return configs.ElectraConfig(**(values | changes))


def run_config(model_dir, **changes) -> configs.RunConfig:
    values = {
        "model_dir": str(model_dir),
        "num_train_steps": 8,
        "steps_per_loop": 2,
        "seed": 3,
    }
    return configs.RunConfig(**(values | changes))


def finetuning_run_config(model_dir, **changes) -> configs.RunConfig:
    """The same for fine-tuning, which counts epochs."""
    return run_config(model_dir, **({"num_train_steps": 0} | changes))


def pretraining_config(model_dir, **changes) -> configs.PretrainingConfig:
    """A run of these; `changes` are the changes of each part."""
    config = configs.PretrainingConfig(
        model=electra_config(),
        data=configs.PretrainingDataConfig("*.tfrecord", "vocab.txt"),
        optimizer=configs.OptimizerConfig(1e-3),
        run=run_config(model_dir),
    )
    for name, values in changes.items():
        part = dataclasses.replace(getattr(config, name), **values)
        config = dataclasses.replace(config, **{name: part})
    return config


def row(number: int, length: int = LENGTH) -> dict[str, list[int]]:
    """Example `number`: [CLS] words [SEP] [PAD]..., unlike all others."""
    num_words = length - 2 - number % 3
    words = [5 + (number // 15**i + i) % 15 for i in range(num_words)]
    num_tokens = num_words + 2
    padding = [0] * (length - num_tokens)
    return {
        "input_ids": [CLS, *words, SEP, *padding],
        "input_mask": [1] * num_tokens + padding,
        "segment_ids": [0] * length,
    }


def write_tfrecords(path, rows) -> str:
    """Writes {feature name: ints} as TFRecords."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for features in rows:
            example = tf.train.Example()
            for name, values in features.items():
                example.features.feature[name].int64_list.value.extend(values)
            writer.write(example.SerializeToString())
    return str(path)


def write_vocab(folder) -> str:
    path = pathlib.Path(folder) / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return str(path)


def make_tokenizer(
    vocab_file, do_lower_case=True, strip_accents=True, text_cleaning="none"
):
    """The tokenizer of a vocabulary file, by default BERT's for lower case."""
    from electra_tf.text import tokenization, vocabulary

    return tokenization.FullTokenizer(
        vocabulary.Vocabulary(
            tuple(vocabulary.load_vocab(vocab_file)),
            do_lower_case,
            strip_accents,
            text_cleaning,
        )
    )


def inputs(numbers) -> dict[str, np.ndarray]:
    """A batch of `row`s, <int32>[B, L] each."""
    rows = [row(number) for number in numbers]
    return {
        name: np.array([r[name] for r in rows], np.int32) for name in rows[0]
    }


def command(*args: str) -> list[str]:
    """A Python command line."""
    return [sys.executable, *map(str, args)]


def environment(**changes) -> dict[str, str]:
    """For a subprocess: this package importable, no GPU, few threads."""
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **changes,
    }


def execute(*args: str, **kwargs) -> subprocess.CompletedProcess:
    """Runs a Python command to its end."""
    return subprocess.run(
        command(*args),
        capture_output=True,
        text=True,
        **({"cwd": ROOT, "env": environment()} | kwargs),
    )


def start(*args: str, **kwargs) -> subprocess.Popen:
    """Starts a Python command."""
    return subprocess.Popen(
        command(*args),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **({"cwd": ROOT, "env": environment()} | kwargs),
    )


def assert_same_checkpoint(model_dir, expected_dir):
    """The last checkpoints of two runs hold the same, bit for bit."""
    import tensorflow as tf

    found, expected = (
        tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))
        for folder in (model_dir, expected_dir)
    )
    names = {
        name
        for name in expected.get_variable_to_dtype_map()
        # The object graph and the number of saves are not learned.
        if "/.ATTRIBUTES/VARIABLE_VALUE" in name and "save_counter" not in name
    }
    assert {"model/", "optimizer/"} <= {
        name[: name.find("/") + 1] for name in names
    }
    assert names <= set(found.get_variable_to_dtype_map())
    for name in names:
        np.testing.assert_array_equal(
            found.get_tensor(name), expected.get_tensor(name), name
        )


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def write_pretrained(model_dir, encoder=None, **changes):
    """A model directory as pre-training leaves it, and the model in it."""
    import keras
    import tensorflow as tf

    from electra_tf import model_directory
    from electra_tf.model import ablations, masking
    from electra_tf.training import saving

    keras.utils.set_random_seed(1)
    encoder = encoder or encoder_config(initializer_range=0.5)
    changes = {"encoder": encoder} | changes
    config = pretraining_config(model_dir, model=changes)
    model = ablations.make_model(
        config.model, masking.SpecialIds(CLS, SEP, MASK)
    )
    model_directory.write(config, "", [])
    tf.train.CheckpointManager(
        saving.checkpointed_variables(model), str(model_dir), 1
    ).save()
    return model


def write_tsv(path, rows) -> str:
    """Writes (text, label) rows under their header."""
    lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in rows)]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    return str(path)


def load_original(prefix: str, variables):
    """Variables of the same names get a checkpoint's tensors; the report."""
    from electra_tf.checkpoints import reading
    from electra_tf.checkpoints.checkpoint import Checkpoint
    from electra_tf.checkpoints.formats import original

    tensors = original.open_by_name(prefix)
    return reading.assign(Checkpoint(tensors), variables, prefix)


def is_gone(found: weakref.ref) -> bool:
    """Soon: a dataset's threads have to end first, which hold its functions."""
    for _ in range(50):
        gc.collect()
        if found() is None:
            return True
        time.sleep(0.1)
    return False


def write_manifest(folder, shards, inputs=(), share="training", **flags):
    """The manifest of a build of the vocabulary `VOCAB`.

    `shards` are the names of files of the folder and their numbers of examples,
    `inputs` those of a manifest, and `flags` those of `manifest.Build`.
    """
    from electra_tf.pretraining_data import manifest
    from electra_tf.text import vocabulary

    build = manifest.Build(LENGTH, True, True, True, 1, len(shards))
    entries = []
    for name, examples in shards.items():
        path = os.path.join(folder, name)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        entries.append({"name": name, "examples": examples, "bytes": size})
    content = {
        "manifest_version": manifest.VERSION,
        "share": share,
        "flags": build._replace(**flags)._asdict(),
        "inputs": [{"bytes": 1, "bad_inputs": 0} | entry for entry in inputs],
        "shards": entries,
        "vocabulary": {"tokens_sha256": vocabulary.digest(VOCAB)},
    }
    path = os.path.join(folder, manifest.FILE_NAME)
    with open(path, "w", encoding="utf-8") as file:
        file.write(manifest.text_of(content))
