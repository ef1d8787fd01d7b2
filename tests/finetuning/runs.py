"""Small runs of fine-tuning: rows, a pre-trained model, settings."""

import dataclasses

from electra_tf import configs, model_directory
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import finetune, finished_run
from tests import helpers

# "wa" says it all.
TRAIN = [("wa wb", "yes"), ("wc wd we", "no"), ("wf wa", "yes")]
MANY = [*TRAIN * 4, ("wg wh", "no")]
DEV = [("wa wc", "yes"), ("wc wb", "no"), ("wh wa wb", "yes")]
TEST = [("wa wd", "yes"), ("wb wc", "no")]


def write_data(folder, train):
    """A pre-trained model, its vocabulary and rows; returns the folder."""
    helpers.write_pretrained(folder / "pretrained")
    helpers.write_vocab(folder)
    for name, rows in (("train", train), ("dev", DEV), ("test", TEST)):
        helpers.write_tsv(folder / f"{name}.tsv", rows)
    return folder


def make_config(folder, model_dir, data=None, **changes):
    """Two epochs over the rows of a folder; dev and test are scored."""
    files = {
        f"{name}_file": f"{folder}/{name}"
        + (".txt" if name == "vocab" else ".tsv")
        for name in ("train", "dev", "test", "vocab")
    }
    sizes = {"max_seq_length": 8, "train_batch_size": 4, "eval_batch_size": 2}
    values = {"task_name": "letters", "num_train_epochs": 2.0, **files, **sizes}
    config = finetuning_configs.FinetuningConfig(
        init_checkpoint=f"{folder}/pretrained",
        data=finetuning_configs.FinetuningDataConfig(**values | (data or {})),
        optimizer=configs.OptimizerConfig(1e-2, layerwise_lr_decay=0.8),
        run=helpers.finetuning_run_config(model_dir),
    )
    return dataclasses.replace(config, **changes)


def run(config):
    """As the command does."""
    model_directory.refuse_other_run(config)
    if config.data.eval_only:
        return finished_run.score(config)
    return finetune.finetune(
        config, lambda: model_directory.write(config, "", [])
    )


def read_tsv(path):
    """The rows of a file with a header, as dicts."""
    with open(path, encoding="utf-8") as f:
        header, *rows = [line.rstrip("\n").split("\t") for line in f]
    return [dict(zip(header, row, strict=True)) for row in rows]


def bare_config(data=None, **changes):
    """A run of files that need not be there."""
    files = {"train_file": "train.tsv", "dev_file": "dev.tsv"} | (data or {})
    values = {
        "init_checkpoint": "model",
        "data": finetuning_configs.FinetuningDataConfig(**files),
        "optimizer": configs.OptimizerConfig(1e-3),
        "run": configs.RunConfig("model", seed=7),
    }
    return finetuning_configs.FinetuningConfig(**values | changes)
