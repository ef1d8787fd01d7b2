"""The quickstart, command by command: text -> an exported model and a report.

This list is the tutorial. Every step is the command that you would type;
`electra-tf quickstart` and `make quickstart` run them.
"""

import typing

from labelled_texts import LABEL_OF

BUILD = "build/quickstart"
REPORT = f"{BUILD}/report.html"

_BUILD_DATA = (
    f"electra-tf build-data --vocab-file={BUILD}/vocab.txt --max-seq-length=32 "
    "--no-blanks-separate-docs --num-processes=2"
)
_FINETUNE = "electra-tf finetune --gin_file=gin/quickstart_finetuning.gin"
_TEXTS = (
    "Return the eigenvalues of a symmetric matrix.",
    "Draw a legend next to the axes.",
    "Merge two tables on a column of keys.",
    "Fit a forest of decision trees to the training samples.",
    "Close the file and release the lock of the thread.",
)


class Step(typing.NamedTuple):
    """Commands, and what is there when they are done.

    Attributes:
      name: Of its file in the folder `seconds`.
      results: What they write at their ends; of several files that a pattern
        matches, the newest counts.
      commands: As typed; a script is named by its path in a checkout.
    """

    name: str
    results: tuple[str, ...]
    commands: tuple[str, ...]


def _step(name: str, results: str, *commands: str) -> Step:
    paths = tuple(f"{BUILD}/{result}" for result in results.split())
    return Step(name, paths, commands)


STEPS = (
    # The prose of the docstrings that every installation has.
    _step(
        *("corpus", "corpus/manifest.json"),
        "python tools/quickstart/build_docstring_corpus.py "
        f"--output_dir={BUILD}/corpus --packages={','.join(LABEL_OF)}",
    ),
    _step(
        *("vocab", "vocab.txt"),
        f"electra-tf build-vocab --corpus_dir={BUILD}/corpus/train "
        f"--vocab_file={BUILD}/vocab.txt --vocab_size=4096",
    ),
    _step(
        "tfrecords",
        "train_tfrecords/manifest.json heldout_tfrecords/manifest.json",
        *(
            f"{_BUILD_DATA} --corpus-dir={BUILD}/corpus/{part} "
            f"--output-dir={BUILD}/{part}_tfrecords"
            for part in ("train", "heldout")
        ),
    ),
    # Evaluates on the held-out part at its end.
    _step(
        *("pretrain", "pretrain/eval_results.json"),
        "electra-tf pretrain --gin_file=gin/quickstart.gin",
    ),
    # Three seeds with and without pre-training. Layers of random weights have
    # all to learn: they take one rate.
    _step(
        "finetune",
        "finetune_pretrained/results.json finetune_from_scratch/results.json",
        _FINETUNE,
        f"{_FINETUNE} --gin_param=FinetuningConfig.from_scratch=True "
        "--gin_param=OptimizerConfig.learning_rate=3e-4 "
        "--gin_param=OptimizerConfig.layerwise_lr_decay=0.0 "
        f"--model_dir={BUILD}/finetune_from_scratch",
    ),
    # Every export is a version of its own.
    _step(
        *("export", "saved_model/*/saved_model.pb"),
        f"electra-tf export --model_dir={BUILD}/finetune_pretrained "
        f"--output={BUILD}/saved_model",
    ),
    _step(
        *("report", "summary.json report.html"),
        f"python tools/quickstart/write_report.py --build_dir={BUILD}",
        f"electra-tf predict --saved_model={BUILD}/saved_model "
        "--format=text " + " ".join(f"'{text}'" for text in _TEXTS),
    ),
)
