"""Tasks on sentences -> means of a frozen encoder's vectors -> dev scores.

  python tools/experiments/frozen_tasks.py --task=sts --output=frozen.json \\
      build/experiments/runs/objectives/electra/2.4e13/seed_1/pretraining

What fine-tuning does not find in a checkpoint may be there all the same. Each
text, or pair of texts in one row, becomes the mean of its tokens' vectors, the
embeddings' and each layer's side by side, or with --pooling=cls those of [CLS]
alone, which is what the heads of fine-tuning read. A linear model reads them:
ridge regression for numbers, logistic regression for labels. How strong it is
pulled to 0 is chosen by cross-validation on the training rows. The last line of
a task is of the first checkpoint's network with random weights.
"""

import argparse
import dataclasses
import sys

import experiment_runs
import experiment_suites
import figure_files
import numpy as np

from electra_tf.command_line import arguments, gin_files
from electra_tf.text.tokenization import ENCODER_FEATURES

# Tasks whose rows are one or two sentences with one label or number.
TASKS = ("cola", "mrpc", "rte", "sst", "sts")
POOLINGS = ("mean", "cls")
_RIDGES = np.logspace(-1, 5, 13)
_STRENGTHS = np.logspace(-5, 0, 6)
_FOLDS = 5
_BATCH = 128
_MAX_ITERATIONS = 1000


def read(encoder, features, pooling: str) -> np.ndarray:
    """What the linear model reads.

    Args:
      encoder: An `electra_tf.Encoder`.
      features: `input_ids`, `input_mask`, `segment_ids`: <int32>[N, L].
      pooling: One of `POOLINGS`.

    Returns:
      <float32>[N, (1 + layers) * D].
    """
    import tensorflow as tf

    found = []
    for start in range(0, len(features["input_ids"]), _BATCH):
        rows = slice(start, start + _BATCH)
        batch = {
            name: tf.constant(features[name][rows]) for name in ENCODER_FEATURES
        }
        outputs = encoder(batch, return_layers=True)
        layers = [outputs["embedding_output"], *outputs["all_encoder_layers"]]
        vectors = tf.cast(tf.concat(layers, axis=-1), tf.float32)
        if pooling == "cls":
            found.append(vectors[:, 0].numpy())
            continue
        mask = tf.cast(batch["input_mask"], tf.float32)
        sums = tf.einsum("bl,bld->bd", mask, vectors)
        found.append((sums / tf.reduce_sum(mask, -1, keepdims=True)).numpy())
    return np.concatenate(found)


def score(
    metric: str,
    train: tuple[np.ndarray, np.ndarray],
    dev: tuple[np.ndarray, np.ndarray],
) -> float:
    """Fits the linear model on `train`; its score on `dev`, in per cent.

    Args:
      metric: "spearman", "mcc" or "accuracy".
      train: <float32>[N, F] vectors and their labels or numbers.
      dev: The same of other rows.
    """
    # Takes seconds.
    from scipy import stats
    from sklearn import linear_model, metrics, model_selection, preprocessing
    from sklearn import pipeline as pipelines

    if metric == "spearman":
        model = linear_model.RidgeCV(_RIDGES)
    else:
        model = model_selection.GridSearchCV(
            linear_model.LogisticRegression(max_iter=_MAX_ITERATIONS),
            {"C": _STRENGTHS},
            scoring="matthews_corrcoef" if metric == "mcc" else metric,
            cv=_FOLDS,
        )
    whole = pipelines.make_pipeline(preprocessing.StandardScaler(), model)
    whole.fit(*train)
    vectors, expected = dev
    predicted = whole.predict(vectors)
    if metric == "spearman":
        found = stats.spearmanr(predicted, expected).statistic
    elif metric == "mcc":
        found = metrics.matthews_corrcoef(expected, predicted)
    else:
        found = metrics.accuracy_score(expected, predicted)
    return 100.0 * float(found)


def _rows(
    task: str, model_dir: str, data_dir: str, max_rows: int
) -> dict[str, tuple[dict, np.ndarray]]:
    """Split -> features and labels of what a checkpoint's tokenizer makes."""
    from electra_tf.finetuning import configs, preparation
    from electra_tf.finetuning.tasks import text_tasks

    config = gin_files.load(
        configs.FinetuningConfig,
        [
            experiment_runs.gin_path(path)
            for path in (
                experiment_suites.TASKS[task].gin_file,
                f"experiments/finetuning/{task}.gin",
                "experiments/finetuning.gin",
            )
        ],
    )
    config = dataclasses.replace(
        config,
        init_checkpoint=model_dir,
        data=dataclasses.replace(config.data, data_dir=data_dir),
    )
    ((data,),) = preparation.prepare(config).folds
    assert isinstance(data.task, text_tasks.TextTask)
    found = {}
    for split in ("train", "dev"):
        features = data.features[split]
        (labels,) = data.task.label_features(data.examples[split]).values()
        found[split] = (
            {name: features[name][:max_rows] for name in ENCODER_FEATURES},
            labels[:max_rows],
        )
    return found


def _run(args: argparse.Namespace) -> None:
    import tensorflow as tf

    import electra_tf

    scores: dict[str, dict[str, float]] = {}
    for task in args.task:
        metric = experiment_suites.TASKS[task].metric
        for name in [*args.model_dirs, ""]:
            model_dir = name or args.model_dirs[0]
            rows = _rows(task, model_dir, args.data_dir, args.max_rows)
            encoder = electra_tf.Encoder.from_checkpoint(model_dir)
            if not name:
                sizes = dataclasses.asdict(encoder.config)
                tf.keras.utils.set_random_seed(args.seed)
                encoder = electra_tf.Encoder(**sizes)
            train, dev = (
                (read(encoder, features, args.pooling), labels)
                for features, labels in (rows["train"], rows["dev"])
            )
            found = score(metric, train, dev)
            scores.setdefault(name or "random weights", {})[task] = found
            print(f"{task} {metric} {found:.1f} {name or 'random weights'}")
    if args.output:
        figure_files.write(args.output, scores)


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(prog="frozen_tasks", description=__doc__)
    add = parser.add_argument
    add("model_dirs", nargs="+", help="pre-training runs, or checkpoints")
    add(
        "--data-dir",
        default="build/experiments",
        help="has finetuning_data (default: %(default)s)",
    )
    add("--task", nargs="+", choices=TASKS, default=list(TASKS))
    add(
        "--pooling",
        choices=POOLINGS,
        default="mean",
        help="of all tokens' vectors, or [CLS]'s (default: %(default)s)",
    )
    add(
        "--max-rows",
        type=arguments.positive_int,
        default=10_000,
        help="of train and of dev, the first ones (default: %(default)s)",
    )
    add(
        "--seed", type=int, default=1, help="of the random weights (default: 1)"
    )
    add("--output", help="where the scores go, a .json")
    return arguments.run(_run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
