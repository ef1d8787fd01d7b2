"""Texts to pre-train on, and tasks, for the runs of docs/experiments.md.

  python3 tools/experiments/build_experiment_data.py --data_dir=data \\
      --docstrings_dir=build/experiments/docstrings \\
      --output_dir=build/experiments

Reads glue/{CoLA,MRPC,RTE,SST-2,STS-B}/{train,dev}.tsv and
wikitext-2/{valid,test}.txt of the data folder, and what
build_docstring_corpus.py wrote; writes below the output folder:

  corpus/docstrings/*.txt, corpus/wikitext_{valid,test}.txt   to pre-train on
  finetuning_data/<task>/{train,dev}.tsv                      as they are

No text of a task is pre-trained on. Held-out docstrings stay where they are.
"""

import pathlib
import shutil
import sys

import build_results_data

from electra_tf.command_line import arguments


def build(
    data_dir: pathlib.Path,
    docstrings_dir: pathlib.Path,
    output_dir: pathlib.Path,
) -> None:
    """Writes everything that the module's docstring lists.

    Raises:
      OSError: If a file is missing.
    """
    corpus = output_dir / "corpus"
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
    for split in ("valid", "test"):
        path = data_dir / "wikitext-2" / f"{split}.txt"
        build_results_data.write_lines(
            corpus / f"wikitext_{split}.txt", build_results_data.wikitext(path)
        )
    (corpus / "docstrings").mkdir(exist_ok=True)
    for path in docstrings:
        shutil.copyfile(path, corpus / "docstrings" / path.name)


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
