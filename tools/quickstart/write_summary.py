"""Writes the figures of a quickstart run: summary.json.

python tools/quickstart/write_summary.py --build_dir=build/quickstart

reads the model directories pretrain, finetune_pretrained and
finetune_from_scratch, the labelled rows, on which it fits a logistic regression
on TF-IDF to compare with, and the files seconds/<step> below --build_dir.
Accuracies are fractions:

  test_accuracy, dev_accuracy   pretrained, random_weights, tf_idf, majority,
                                each with a mean; networks have a deviation and
                                the accuracies of the seeds, too
  pretraining                   the held-out metrics, by name
  seconds                       those of each step
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

import quickstart_steps

from electra_tf import errors, files, model_directory
from electra_tf.command_line import arguments

_RUNS = {
    "pretrained": "finetune_pretrained",
    "random_weights": "finetune_from_scratch",
}
# scikit-learn's `C`; a larger one regularises less.
_STRENGTHS = (0.1, 1.0, 10.0, 100.0)


def main(argv=None) -> int:
    """Parses the flags and writes; returns the exit code."""
    parser = arguments.ArgumentParser(prog="write_summary", description=__doc__)
    parser.add_argument(
        "--build-dir", required=True, help="directory of a quickstart run"
    )
    return arguments.run(_write_summary, parser, argv)


def _write_summary(args: argparse.Namespace) -> None:
    summary = summarize(pathlib.Path(args.build_dir))
    path = os.path.join(args.build_dir, "summary.json")
    files.write_json(path, summary)
    for name, scores in summary["test_accuracy"].items():
        print(f"test accuracy, {name}: {100 * scores['mean']:.1f} %")
    print(f"summary: {path}")


def summarize(build_dir: pathlib.Path) -> dict:
    """What summary.json holds.

    Raises:
      ConfigError: If a step has not been run.
    """
    results = {
        name: json.loads(
            _read_text(build_dir, folder, model_directory.RESULTS_FILE)
        )
        for name, folder in _RUNS.items()
    }
    tf_idf = _tf_idf_accuracies(build_dir / "corpus" / "labelled")
    summary: dict = {}
    for split in ("test", "dev"):
        accuracies = {
            name: [trial[split]["accuracy"] / 100 for trial in run["trials"]]
            for name, run in results.items()
        }
        baseline = results["pretrained"]["baseline"][split]["accuracy"] / 100
        summary[f"{split}_accuracy"] = {
            name: {
                "mean": statistics.fmean(seeds),
                "stdev": statistics.stdev(seeds) if len(seeds) > 1 else 0.0,
                "seeds": seeds,
            }
            for name, seeds in accuracies.items()
        } | {"tf_idf": {"mean": tf_idf[split]}, "majority": {"mean": baseline}}
    summary["pretraining"] = json.loads(
        _read_text(build_dir, "pretrain", model_directory.EVAL_RESULTS_FILE)
    )
    # Those of the last step are not known yet.
    summary["seconds"] = {
        step.name: float(_read_text(build_dir, "seconds", step.name))
        for step in quickstart_steps.STEPS[:-1]
    }
    return summary


def _tf_idf_accuracies(folder: pathlib.Path) -> dict[str, float]:
    """Logistic regression on the words of the same rows; dev chooses its C."""
    # Takes seconds.
    from sklearn import feature_extraction, linear_model

    rows = {}
    for split in ("train", "dev", "test"):
        lines = _read_text(folder, f"{split}.tsv").split("\n")[1:-1]
        rows[split] = tuple(zip(*(x.split("\t") for x in lines), strict=True))
    vectorizer = feature_extraction.text.TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True
    ).fit(rows["train"][0])
    vectors = {
        name: vectorizer.transform(part[0]) for name, part in rows.items()
    }

    def accuracies(strength: float) -> dict[str, float]:
        model = linear_model.LogisticRegression(C=strength, max_iter=1000)
        model.fit(vectors["train"], rows["train"][1])
        return {x: model.score(vectors[x], rows[x][1]) for x in ("dev", "test")}

    return max(map(accuracies, _STRENGTHS), key=lambda scores: scores["dev"])


def _read_text(folder: pathlib.Path, *parts: str) -> str:
    path = folder.joinpath(*parts)
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise errors.ConfigError(
            f"Expected {path}: run electra-tf quickstart ({error.strerror})"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
