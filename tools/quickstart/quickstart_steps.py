"""The quickstart, command by command: text -> an exported model and a report.

This list is the tutorial. Every step is the command that you would type;
`electra-tf quickstart` and `make quickstart` run them.
"""

import typing

BUILD = "build/quickstart"
REPORT = f"{BUILD}/report.html"

_BUILD_DATA = (
    f"electra-tf build-data --vocab-file={BUILD}/vocab.txt --max-seq-length=64 "
    "--no-blanks-separate-docs --num-processes=2"
)
PRETRAIN = "electra-tf pretrain --gin_file=gin/quickstart.gin"
FINETUNE = "electra-tf finetune --gin_file=gin/quickstart_finetuning.gin"
# Layers of random weights have all to learn: with rates that fall from layer to
# layer they are right a quarter less often.
FINETUNE_FROM_SCRATCH = (
    f"{FINETUNE} --gin_param=FinetuningConfig.from_scratch=True "
    "--gin_param=OptimizerConfig.learning_rate=3e-4 "
    "--gin_param=OptimizerConfig.layerwise_lr_decay=0.0"
)


class Step(typing.NamedTuple):
    """Commands, and what is there when they are done.

    Attributes:
      name: Of its file in the folder `seconds`.
      title: What is done.
      result: What its last command writes, at the end; of several that a
        pattern matches, the newest.
      commands: As typed; a script is named by its path in a checkout.
      is_printed: Whether the result is what the command prints.
      also: What the commands before the last one write, likewise.
    """

    name: str
    title: str
    result: str
    commands: tuple[str, ...]
    is_printed: bool = False
    also: tuple[str, ...] = ()


STEPS = (
    # The prose of the docstrings that every installation has.
    Step(
        "corpus",
        "collect the docstrings",
        f"{BUILD}/corpus/manifest.json",
        (
            "python tools/quickstart/build_docstring_corpus.py "
            f"--output_dir={BUILD}/corpus --labelled_train_size=400",
        ),
    ),
    Step(
        "vocab",
        "build the vocabulary",
        f"{BUILD}/vocab.txt",
        (
            f"electra-tf build-vocab --corpus_dir={BUILD}/corpus/train "
            f"--vocab_file={BUILD}/vocab.txt --vocab_size=4096",
        ),
    ),
    Step(
        "tfrecords",
        "build the examples",
        f"{BUILD}/heldout_tfrecords/manifest.json",
        (
            f"{_BUILD_DATA} --corpus-dir={BUILD}/corpus/train "
            f"--output-dir={BUILD}/train_tfrecords",
            f"{_BUILD_DATA} --corpus-dir={BUILD}/corpus/heldout "
            f"--output-dir={BUILD}/heldout_tfrecords",
        ),
        also=(f"{BUILD}/train_tfrecords/manifest.json",),
    ),
    # Evaluates on the held-out part at its end.
    Step(
        "pretrain",
        "pre-train",
        f"{BUILD}/pretrain/eval_results.json",
        (PRETRAIN,),
    ),
    Step(
        "finetune",
        "fine-tune, all seeds, with and without pre-training",
        f"{BUILD}/finetune_from_scratch/results.json",
        (
            FINETUNE,
            f"{FINETUNE_FROM_SCRATCH} "
            f"--model_dir={BUILD}/finetune_from_scratch",
        ),
        also=(f"{BUILD}/finetune_pretrained/results.json",),
    ),
    Step(
        "export",
        "export a SavedModel",
        # Every export is a version of its own.
        f"{BUILD}/saved_model/*/saved_model.pb",
        (
            f"electra-tf export --model_dir={BUILD}/finetune_pretrained "
            f"--output={BUILD}/saved_model",
        ),
    ),
    Step(
        "query",
        "query it",
        f"{BUILD}/query.txt",
        (
            "python tools/quickstart/query_saved_model.py "
            f"--saved_model={BUILD}/saved_model "
            "'Return the eigenvalues of a symmetric matrix.' "
            "'Draw a legend next to the axes.' "
            "'Merge two tables on a column of keys.' "
            "'Fit a forest of decision trees to the training samples.' "
            "'Close the file and release the lock of the thread.'",
        ),
        is_printed=True,
    ),
    Step(
        "report",
        "write the report",
        REPORT,
        (f"python tools/quickstart/write_report.py --build_dir={BUILD}",),
    ),
)
