"""Texts -> means of their tokens' vectors of a latent semantic analysis.

  python tools/experiments/latent_features.py --gin_file=gin/quickstart.gin \
      --labelled_dir=build/quickstart/corpus/labelled --output=latent.json

What a pre-training with `PretrainingDataConfig.embeddings_from_data` starts
with, read as it is: no network, and seconds of work. The command makes a
logistic regression of it (`frozen_features.fit`), scored on dev and test.
"""

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence

import figure_files
import frozen_features
import numpy as np
import tf_idf

from electra_tf import configs
from electra_tf.command_line import arguments, gin_files

_BATCH = 256
# Nearly all texts are read whole.
_MOST_TOKENS = 4096


class Reader:
    """The analysis of a pre-training's examples, with which texts are read.

    Args:
      config: Of the pre-training.
    """

    def __init__(self, config: configs.PretrainingConfig):
        from electra_tf import Preprocessor
        from electra_tf.model import masking
        from electra_tf.pretraining_data import batches
        from electra_tf.text import vocabulary

        data = batches.PretrainingData(
            config.data.train_files, config.model, config.run.seed
        )
        vocab = vocabulary.load(config.data.vocab_file)
        self._vectors = data.token_vectors(
            masking.SpecialIds.of(vocab),
            config.data.embeddings_num_examples,
            config.data.embeddings_exponent,
        )
        self._preprocessor = Preprocessor(
            config.data.vocab_file, max_seq_length=_MOST_TOKENS
        )

    def read(
        self,
        texts: Sequence[str],
        report: Callable[[int], None] = lambda done: None,
    ) -> np.ndarray:
        """The means of all texts.

        Args:
          texts: Of any length.
          report: Is told how many texts are done.

        Returns:
          <float32>[texts, E]; tokens without a vector do not count.
        """
        vectors = self._vectors
        has_one = np.asarray(vectors.any(axis=1), np.float32)
        means = np.zeros((len(texts), vectors.shape[1]), np.float32)
        for start in range(0, len(texts), _BATCH):
            features = self._preprocessor(list(texts[start : start + _BATCH]))
            ids, mask = (
                features[name].numpy() for name in ("input_ids", "input_mask")
            )
            # One at a time: all vectors of a batch would be gigabytes.
            for i, (row, is_token) in enumerate(zip(ids, mask, strict=True)):
                weights = is_token * has_one[row]
                total = max(1.0, weights.sum())
                means[start + i] = weights @ vectors[row] / total
            report(start + len(ids))
        return means


def run(args: argparse.Namespace) -> int:
    """Scores it, and writes what `tf_idf.Baseline` has.

    Raises:
      ValueError: If examples or labelled texts are missing or damaged.
    """
    config = gin_files.load(configs.PretrainingConfig, [args.gin_file])
    rows = [
        tf_idf.read_rows(pathlib.Path(args.labelled_dir, f"{name}.tsv"))
        for name in ("train", "dev", "test")
    ]
    reader = Reader(config)
    train, dev, test = ((reader.read(r.texts), r.labels) for r in rows)
    scores = frozen_features.fit(train, dev, test)
    figure_files.write(args.output, scores._asdict())
    print(f"written: {args.output}")
    return 0


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(
        prog="latent_features", description=__doc__
    )
    for name, what in (
        ("--gin-file", "Of the pre-training whose examples are analysed."),
        ("--labelled-dir", "Has train.tsv, dev.tsv and test.tsv."),
        ("--output", "Where the scores go, a .json."),
    ):
        parser.add_argument(name, required=True, help=what)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
