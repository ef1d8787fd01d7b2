"""Training: a step of electra_tf beside others' on the same rows."""

import dataclasses
import math
from typing import Any

import contest
import numpy as np

from electra_tf import configs

# Of the rows that are made here; [PAD] is 0.
SPECIAL_IDS = _CLS, _SEP, _MASK = 2, 3, 4
_BFLOAT16 = {"dtype_policy": "mixed_bfloat16"}
_TORCH = ("torch", "transformers")


def _transformers(is_bfloat16: bool, **settings) -> contest.Contestant:
    return contest.Contestant(
        "transformers_training.train",
        {"is_bfloat16": is_bfloat16, **settings},
        _TORCH,
    )


_PRETRAINING = {
    # The original's way: see reference_graph.py.
    "reference": contest.Contestant("training_workers.reference"),
    # The library's own forward pass; and one that scores the masked positions
    # alone, as a careful user would write it.
    "transformers": _transformers(False),
    "transformers_bfloat16": _transformers(True),
    "transformers_masked": _transformers(False, masked_alone=True),
    "transformers_masked_bfloat16": _transformers(True, masked_alone=True),
    "electra_tf": contest.Contestant("training_workers.pretrain"),
    "electra_tf_bfloat16": contest.Contestant(
        "training_workers.pretrain", _BFLOAT16
    ),
    # The matrix products of a step alone, at their peak: times these is MFU.
    "products": contest.Contestant("training_workers.products"),
    "products_bfloat16": contest.Contestant(
        "training_workers.products", _BFLOAT16
    ),
}
_REPLICAS = {
    "one_device": contest.Contestant("training_workers.pretrain"),
    "mirrored": contest.Contestant("training_workers.mirrored"),
    "two_processes": contest.Contestant("training_workers.two_processes"),
}
_FINETUNING = {
    # Any rows together, padded to --max_seq_length, as the original does.
    "padded": contest.Contestant(
        "training_workers.finetune", {"bucketed": False}
    ),
    # Any rows together, padded to the longest of a batch.
    "transformers": _transformers(False, num_labels=2),
    "transformers_bfloat16": _transformers(True, num_labels=2),
    "electra_tf": contest.Contestant("training_workers.finetune"),
    "electra_tf_bfloat16": contest.Contestant(
        "training_workers.finetune", _BFLOAT16
    ),
}


def _random_ids(args, rng, ends) -> Any:
    """Rows of random words, whose [SEP] are at `ends` <int>[N, texts]."""
    positions = np.arange(args.max_seq_length)
    input_mask = (positions <= ends[:, -1:]).astype(np.int32)
    input_ids = rng.integers(
        max(SPECIAL_IDS) + 1,
        contest.encoder_config(args.tiny).vocab_size,
        input_mask.shape,
        np.int32,
    )
    input_ids[:, 0] = _CLS
    np.put_along_axis(input_ids, ends, _SEP, axis=1)
    return {
        "input_ids": input_ids * input_mask,
        "input_mask": input_mask,
        "segment_ids": (positions > ends[:, :1]) * input_mask,
    }


def _prepare_pretraining(args) -> dict[str, Any]:
    """Writes examples, one in twenty short, as TFRecords and for NumPy."""
    import tensorflow as tf

    from electra_tf.pretraining_data import records

    rng = np.random.default_rng(0)
    length = args.max_seq_length
    lengths = np.where(
        rng.random(2000) < 0.05, rng.integers(4, length, 2000), length
    )
    rows = _random_ids(args, rng, lengths[:, np.newaxis] - 1)
    np.savez(f"{args.folder}/rows.npz", **rows)
    for file in range(4):
        path = f"{args.folder}/{file}.tfrecord"
        with tf.io.TFRecordWriter(path) as writer:
            for ids, mask, segments in zip(
                *(row[file::4].tolist() for row in rows.values()), strict=True
            ):
                writer.write(
                    records.serialize_features(
                        b"".join(map(records.varint, ids)),
                        bytes(mask),
                        bytes(segments),
                    )
                )
    config = configs.ElectraConfig(contest.encoder_config(args.tiny), length)
    return {
        "learning_rate": 5e-4,
        "discriminator": dataclasses.asdict(config.encoder),
        "generator": dataclasses.asdict(config.generator),
        "special_ids": [0, *SPECIAL_IDS],
        "first_loss": math.log(config.encoder.vocab_size)
        + config.disc_weight * math.log(2),
    }


def _prepare_finetuning(args) -> dict[str, Any]:
    """Writes rows as long as those of MRPC or SST-2."""
    rng, num_rows = np.random.default_rng(0), 3000
    # Sentences of MRPC, two a row, have 26 tokens, give or take 6; half of
    # SST-2's phrases have at most 9.
    if args.task == "mrpc":
        mean = rng.normal(26, 6, [num_rows, 1])
        words = mean + rng.normal(0, 2, [num_rows, 2])
    elif args.task == "sst":
        words = np.minimum(50, rng.exponential(11, [num_rows, 1]))
    else:
        raise ValueError(f"--task must be mrpc or sst. Received: {args.task}")
    # A [CLS] before the first text, a [SEP] behind each.
    ends = np.cumsum(np.maximum(1, words.round().astype(int)) + 1, axis=1)
    ends = np.minimum(ends, args.max_seq_length - 1)
    np.savez(
        f"{args.folder}/rows.npz",
        **_random_ids(args, rng, ends),
        label_ids=rng.integers(0, 2, num_rows, np.int32),
    )
    sizes = dataclasses.asdict(contest.encoder_config(args.tiny))
    return {"learning_rate": 3e-4, "discriminator": sizes}


TRAINING = contest.Benchmark(
    summary="a step of pre-training: the original's way, transformers, "
    "electra_tf",
    unit="examples",
    contestants=_PRETRAINING,
    chosen=(
        "reference",
        "transformers",
        "transformers_bfloat16",
        "electra_tf",
        "electra_tf_bfloat16",
        "products",
        "products_bfloat16",
    ),
    against=("reference", "transformers_bfloat16"),
    prepare=_prepare_pretraining,
    flags={
        "batch_size": (32, "examples of a step; 2 to 3.5 GB each"),
        "max_seq_length": (128, "tokens of an example"),
    },
    per_step="batch_size",
)
REPLICAS = TRAINING._replace(
    summary="the same step on one device, on two, and in two processes",
    contestants=_REPLICAS,
    chosen=tuple(_REPLICAS),
    against=("one_device",),
)
FINETUNING = contest.Benchmark(
    summary="a step of fine-tuning: transformers, electra_tf",
    unit="rows",
    contestants=_FINETUNING,
    chosen=tuple(_FINETUNING),
    against=("padded", "transformers_bfloat16"),
    prepare=_prepare_finetuning,
    flags={
        "task": ("mrpc", "whose lengths the rows have: mrpc or sst"),
        "batch_size": (32, "rows of a step"),
        "max_seq_length": (128, "tokens of the longest row"),
        "num_steps": (4, "steps of a contestant in a round"),
        "num_rounds": (6, "rounds"),
        "num_warm_up_steps": (3, "steps after the first, not timed"),
    },
    per_step="batch_size",
    is_varied=True,
)
