"""Judges the discriminators of the record table on one corrupted text.

  python tools/experiments/fixed_corruption.py --output_dir=build/records

`disc_auc` says how well a discriminator finds the replacements of its own
generator, so a weaker generator makes it higher. Here all of them find those
of one: the generator of the first row's first seed corrupts held-out examples,
with fixed draws, and every discriminator below --output_dir reads the same
result. Its AUC is written into its model directory, fixed_corruption.json.

Shapes: B batch, L length.
"""

import argparse
import itertools
import os
import pathlib
import sys
import typing
from collections.abc import Iterator

import numpy as np
import records

from electra_tf import errors, files, model_directory
from electra_tf.command_line import arguments

_NUM_EXAMPLES = 2560
_BATCH_SIZE = 128
_SEED = 2003_10555


class CorruptedText(typing.NamedTuple):
    """What discriminators are asked.

    Attributes:
      vocab: The tokens that the ids stand for.
      input_ids: <int32>[B, L], with the samples in place.
      input_mask: <int32>[B, L], 1 on tokens, 0 on padding.
      segment_ids: <int32>[B, L], 0 or 1.
      is_fake_tokens: <int32>[B, L], 1 where the token was changed.
    """

    vocab: list[str]
    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    is_fake_tokens: np.ndarray


def corrupt(model_dir: str) -> CorruptedText:
    """Held-out examples with the samples of a pre-trained generator.

    Raises:
      ConfigError: If the model is not there, or its data are gone or too few.
    """
    # Takes seconds.
    import tensorflow as tf

    from electra_tf import pretraining
    from electra_tf.pretraining_data import batches

    config, vocab, model = pretraining.load_trained(model_dir)
    data = batches.PretrainingData(
        config.data.heldout_files, config.model, _SEED, shuffle=False
    )

    @tf.function
    def corrupted(features):
        features = dict(features)
        fake = model(features, noise=features.pop("noise"))["fake_data"]
        return (
            fake.inputs.input_ids,
            fake.inputs.input_mask,
            fake.inputs.segment_ids,
            fake.is_fake_tokens,
        )

    num_batches = min(_NUM_EXAMPLES, len(data)) // _BATCH_SIZE
    if not num_batches:
        raise errors.ConfigError(
            f"Expected at least {_BATCH_SIZE} held-out examples. Received: "
            f"{len(data)} in {config.data.heldout_files}"
        )
    found = [
        [x.numpy() for x in corrupted(features)]
        for features in itertools.islice(data.dataset(_BATCH_SIZE), num_batches)
    ]
    parts = (np.concatenate(part) for part in zip(*found, strict=True))
    return CorruptedText(list(vocab.tokens), *parts)


def auc(model_dir: str, text: CorruptedText) -> float | None:
    """How well a discriminator ranks changed tokens above the others.

    Args:
      model_dir: Of a pre-training run.
      text: What it is asked.

    Returns:
      The area under the ROC curve; None if it has another vocabulary, or reads
      no examples of this length.
    """
    from sklearn import metrics

    from electra_tf.checkpoints import reading
    from electra_tf.inference import detector

    checkpoint = reading.read_checkpoint(model_dir)
    discriminator = detector.load_discriminator(checkpoint, model_dir)
    length = text.input_ids.shape[1]
    vocab = checkpoint.vocabulary
    if vocab is None or list(vocab.tokens) != text.vocab:
        return None
    if discriminator.encoder.config.max_position_embeddings < length:
        return None
    asked = (text.input_ids, text.input_mask, text.segment_ids)
    starts = range(0, len(text.input_ids), _BATCH_SIZE)
    batches = [[x[i : i + _BATCH_SIZE] for x in asked] for i in starts]
    probabilities = np.concatenate(
        [discriminator.probabilities(*batch) for batch in batches]
    )
    is_real = text.input_mask == 1
    return float(
        metrics.roc_auc_score(
            text.is_fake_tokens[is_real], probabilities[is_real]
        )
    )


def _judge(args: argparse.Namespace) -> None:
    output_dir = pathlib.Path(args.output_dir)
    first = records.RECORDS[0].pretraining
    reference = output_dir / first / "seed_1" / records.PRETRAINING
    if not (reference / model_directory.EVAL_RESULTS_FILE).is_file():
        raise ValueError(
            f"Expected the generator of the first row. Received: no finished "
            f"run in {reference}; run tools/experiments/run_records.py "
            "--rows=first"
        )
    waiting = list(_waiting(output_dir, reference))
    if not waiting:
        return
    text = corrupt(str(reference))
    for model_dir in waiting:
        found = {"auc": auc(str(model_dir), text)}
        files.write_json(
            str(model_dir / records.FIXED_FILE), found, indent=None
        )
        print(f"{model_dir}: {found['auc']}")


def _waiting(
    output_dir: pathlib.Path, reference: pathlib.Path
) -> Iterator[pathlib.Path]:
    """Model directories that have not been judged since they, or the generator
    that is asked, were trained."""
    last = model_directory.EVAL_RESULTS_FILE
    text_of = (reference / last).stat().st_mtime
    pattern = f"*/seed_*/{records.PRETRAINING}/{last}"
    for path in sorted(output_dir.glob(pattern)):
        judged = path.parent / records.FIXED_FILE
        trained = max(path.stat().st_mtime, text_of)
        if not judged.exists() or judged.stat().st_mtime < trained:
            yield path.parent


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(
        prog="fixed_corruption", description=__doc__
    )
    parser.add_argument(
        "--output-dir",
        default="build/records",
        help="Of run_records.py (default: %(default)s).",
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_judge, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
