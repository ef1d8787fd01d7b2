"""Texts to pre-train on, and tasks, for the runs of docs/experiments.md.

  python3 tools/experiments/build_experiment_data.py --data_dir=data \\
      --docstrings_dir=build/experiments/docstrings \\
      --output_dir=build/experiments

Reads from the data folder

  glue/{CoLA,MRPC,RTE,SST-2,STS-B}/{train,dev}.tsv
  conll2003/{train,valid}.txt    wikitext-2/{valid,test}.txt
  imdb/{unsup.txt,train.tsv}.xz

and what build_docstring_corpus.py wrote; writes below the output folder:

  corpus/texts/docstrings/*.txt, corpus/texts/wikitext_{valid,test}.txt,
  corpus/reviews/reviews_<n>.txt            to pre-train on; no text of a task
  finetuning_data/<task>/{train,dev}.tsv    as they are; .txt of ner
  finetuning_data/imdb/{train,dev}.tsv      of the labelled reviews some of the
                                            first, and the last

Held-out docstrings stay where they are.
"""

import pathlib
import shutil
import sys

import build_imdb_data
import build_results_data

from electra_tf.command_line import arguments

# Of labelled reviews to learn from, and to be scored on.
_NUM_REVIEWS = 1600
_NUM_DEV_REVIEWS = build_imdb_data.NUM_DEV


def build(
    data_dir: pathlib.Path,
    docstrings_dir: pathlib.Path,
    output_dir: pathlib.Path,
) -> None:
    """Writes everything that the module's docstring lists.

    Raises:
      OSError: If a file is missing.
      ValueError: If there are no docstrings, or a file of reviews is not of its
        format.
    """
    corpus = output_dir / "corpus"
    texts = corpus / "texts"
    docstrings = sorted((docstrings_dir / "train").glob("*.txt"))
    if not docstrings:
        raise ValueError(
            "Expected the corpus of tools/quickstart/"
            "build_docstring_corpus.py. Received: "
            f"{docstrings_dir}, without train/*.txt."
        )
    # Here first, so that a missing set leaves no half of a corpus.
    for theirs, ours in build_results_data.GLUE.items():
        folder = output_dir / "finetuning_data" / ours
        folder.mkdir(parents=True, exist_ok=True)
        for split in ("train", "dev"):
            shutil.copyfile(
                data_dir / "glue" / theirs / f"{split}.tsv",
                folder / f"{split}.tsv",
            )
    ner = output_dir / "finetuning_data" / "ner"
    ner.mkdir(exist_ok=True)
    for theirs, ours in (("train", "train"), ("valid", "dev")):
        shutil.copyfile(
            data_dir / "conll2003" / f"{theirs}.txt", ner / f"{ours}.txt"
        )
    # What was built before may be of other packages.
    shutil.rmtree(corpus, ignore_errors=True)
    _write_reviews(data_dir / "imdb", output_dir)
    for split in ("valid", "test"):
        path = data_dir / "wikitext-2" / f"{split}.txt"
        build_results_data.write_lines(
            texts / f"wikitext_{split}.txt", build_results_data.wikitext(path)
        )
    (texts / "docstrings").mkdir()
    for path in docstrings:
        shutil.copyfile(path, texts / "docstrings" / path.name)


def _write_reviews(reviews: pathlib.Path, output_dir: pathlib.Path) -> None:
    """The reviews without labels, and of those with labels some."""
    rows = build_imdb_data.splits(
        build_imdb_data.read_labelled(reviews / "train.tsv.xz"),
        test=(),
        sizes=(_NUM_REVIEWS,),
        num_dev=_NUM_DEV_REVIEWS,
        num_test=0,
    )
    build_imdb_data.write_corpus(
        reviews / "unsup.txt.xz", output_dir / "corpus" / "reviews"
    )
    for split, name in (("train", f"train_{_NUM_REVIEWS}"), ("dev", "dev")):
        build_imdb_data.write_labelled(
            output_dir / "finetuning_data" / "imdb" / f"{split}.tsv", rows[name]
        )


def main() -> int:
    """Parses the flags and builds; returns the exit code."""
    parser = build_results_data.make_parser("build_experiment_data", __doc__)
    parser.add_argument(
        "--docstrings-dir",
        type=pathlib.Path,
        required=True,
        help="What tools/quickstart/build_docstring_corpus.py wrote.",
    )
    return arguments.run(lambda args: build(**vars(args)), parser)


if __name__ == "__main__":
    sys.exit(main())
