"""Fine-tunes a pre-trained ELECTRA on labelled rows, or on tasks by name.

electra-tf finetune --gin_file=gin/finetune/rte.gin \\
    --init_checkpoint=models/electra_small --data_dir=glue

electra-tf finetune --init_checkpoint=models/electra_small \\
    --train_file=train.tsv --dev_file=dev.tsv --model_dir=models/mine

electra-tf finetune --data-dir data --model-name mine \\
    --hparams '{"model_size": "base", "task_names": ["rte"]}'

electra-tf finetune --eval_only --model_dir=models/mine \\
    --test_file=new.tsv

Run it again after an interruption and it goes on from its last checkpoint.
"""

import os
import sys

from electra_tf import configs, errors, model_directory
from electra_tf.command_line import launch, original_hparams
from electra_tf.finetuning import configs as finetuning_configs


def _flag_of(parameter: str) -> str:
    """Of its own name, but for the batch, whose size at evaluation is gin's."""
    return parameter.split(".")[1].replace("train_batch_size", "batch_size")


# Parameters that are different in every run, each with a flag; the rest is
# gin's.
_FLAGS: dict[type | tuple[str, ...], dict[str, str]] = {
    str: {
        "FinetuningConfig.init_checkpoint": (
            "Pre-trained model: a model directory, or a checkpoint of any "
            "format that electra-tf convert reads."
        ),
        "FinetuningDataConfig.train_file": (
            "Labelled rows, .tsv, .csv, .jsonl or .json: one text column or "
            "two, and a label column; or .conll, a word and its tag a line."
        ),
        "FinetuningDataConfig.dev_file": (
            "Like --train_file: the rows to score."
        ),
        "FinetuningDataConfig.test_file": (
            "Like --train_file, labels optional; scored at the end."
        ),
        "FinetuningDataConfig.text_columns": (
            "One or two columns of the files, separated by a comma, where they "
            "are not called text, or sentence1 and sentence2 or another pair."
        ),
        "FinetuningDataConfig.label_column": (
            "The column of labels, where it is not called label."
        ),
        "FinetuningDataConfig.label_names": (
            "Names of labels that are numbers in the files, in their order, "
            "such as O,B-PER,I-PER."
        ),
        "FinetuningDataConfig.label_separator": (
            "Between the labels of a row, where it is not '|'."
        ),
        "FinetuningDataConfig.task_names": (
            "Tasks by name, such as rte, instead of files; several, separated "
            "by commas, are trained jointly."
        ),
        "FinetuningDataConfig.data_dir": "Where the files of --task_names are.",
        "FinetuningDataConfig.vocab_file": (
            "Vocabulary, where it is not beside --init_checkpoint."
        ),
        "FinetuningConfig.class_weights": (
            "What rows count in training: balanced, for as much of each label, "
            "or as in yes=19,no=1."
        ),
    },
    int: {
        "FinetuningDataConfig.folds": (
            "Cross-validation over --train_file, instead of --dev_file: as "
            "many models, each scored on the rows that it has not seen."
        ),
        "FinetuningDataConfig.train_batch_size": "Rows in one step.",
        "RunConfig.seed": "Of the first trial; those after it count on.",
        "FinetuningDataConfig.max_seq_length": (
            "Longer texts are cut, or see --long_texts."
        ),
        "FinetuningDataConfig.window_stride": (
            "Tokens from a window of --long_texts=windows to the next one; by "
            "default half of --max_seq_length."
        ),
        "FinetuningConfig.num_trials": "Models with different seeds.",
        "FinetuningConfig.reseed_degenerate": (
            "How often a model that says the same of every row is trained "
            "again with another seed."
        ),
        "FinetuningConfig.early_stopping_patience": (
            "Evaluations in a row that are not better on dev, one each epoch, "
            "after which training ends; the best weights are taken."
        ),
    },
    bool: {
        "FinetuningDataConfig.eval_only": (
            "Train nothing, and score --dev_file and --test_file with the "
            "models of the run in --model_dir; nothing else need be given."
        ),
        "FinetuningDataConfig.has_header": (
            "Whether the first row of a .tsv or .csv names its columns; they "
            "are called 1, 2, ... otherwise."
        ),
        "FinetuningDataConfig.skip_empty_texts": (
            "Leave rows without a text out, rather than refuse them."
        ),
        "FinetuningConfig.keep_head": (
            "Go on with the head of --init_checkpoint."
        ),
    },
    ("auto", *finetuning_configs.TASK_TYPES): {
        "FinetuningDataConfig.task_type": (
            "What the labels of the files are; auto takes lists and labels "
            "with a | for several a row, numbers with a point for regression, "
            "lists of words for tagging, and all else for classes."
        ),
    },
    tuple(finetuning_configs.LONG_TEXTS): {
        "FinetuningDataConfig.long_texts": (
            "Texts longer than --max_seq_length are cut, or read in windows "
            "that overlap, whose logits are averaged."
        ),
    },
    tuple(configs.POOLINGS): {
        "FinetuningConfig.pooling": (
            "What the head reads of a text: the first token's vector, as the "
            "original, or the mean of all tokens' vectors."
        ),
    },
    float: {
        "FinetuningDataConfig.dev_fraction": (
            "Part of --train_file that is held out and scored, instead of "
            "--dev_file."
        ),
        "FinetuningDataConfig.num_train_epochs": (
            "Passes over the training rows; the default follows the model's "
            "size."
        ),
        "OptimizerConfig.learning_rate": (
            "Peak learning rate; the default follows the model's size."
        ),
    },
}
# Flag -> the parameter that it overrides.
BINDINGS = {
    _flag_of(parameter): parameter
    for texts in _FLAGS.values()
    for parameter in texts
}


def _run(config, before_training, args) -> None:
    """Trains, or scores; prints scores, and where they and the rest are."""
    # Imports TensorFlow: late, so that mistakes in a gin file show at once.
    import tensorflow as tf

    from electra_tf.finetuning import finetune, finished_run, results
    from electra_tf.training import workers

    # It warns of a new graph after some trials: each has one of its own.
    tf.get_logger().setLevel("ERROR")
    what, directory = "fine-tuned model", config.run.model_dir
    if config.data.eval_only:
        summary = finished_run.score(config)
        what = "scores and predictions"
    else:
        with workers.lost(directory):
            summary = finetune.finetune(config, before_training)
    if summary is None:  # Another worker speaks for the run.
        return
    directory = summary.get("directory", directory)
    print(results.format_results(summary))
    print(f"{what}: {directory}")
    report = os.path.join(directory, model_directory.REPORT_FILE)
    if os.path.exists(report):
        print(f"report: {report}")


def _trained_run(args) -> launch.Base | None:
    """What --eval_only goes by: the run in --model_dir, but for its files."""
    if not args.eval_only:
        return None
    model_dir = args.model_dir
    if args.init_checkpoint is not None:
        raise errors.ConfigError(
            "Expected no --init_checkpoint with --eval_only, which asks the "
            "models of --model_dir. Received: "
            f"--init_checkpoint={args.init_checkpoint}"
        )
    if not model_dir:
        raise errors.ConfigError(
            "Expected --model_dir, of the run whose models are to be asked, "
            "with --eval_only. Received: no --model_dir"
        )
    path = os.path.join(model_dir, model_directory.OPERATIVE_CONFIG_FILE)
    if not os.path.isfile(path):
        raise errors.ConfigError(
            f"Expected a finished fine-tuning run in {model_dir}, found no "
            f"{model_directory.OPERATIVE_CONFIG_FILE} there"
        )
    return [path], [
        "FinetuningDataConfig.dev_file = ''",
        "FinetuningDataConfig.test_file = ''",
        "FinetuningDataConfig.folds = 0",
        "FinetuningDataConfig.dev_fraction = 0.0",
    ]


def main(argv=None) -> int:
    """Parses the flags and fine-tunes; returns the exit code."""
    parser = launch.make_parser("electra-tf finetune", __doc__)
    for kind, texts in _FLAGS.items():
        parser.add_values(kind, **{_flag_of(p): t for p, t in texts.items()})
    return launch.Command(
        parser,
        finetuning_configs.FinetuningConfig,
        _run,
        original_hparams.finetuning,
        BINDINGS,
        ("init_checkpoint", "model_dir"),
        _trained_run,
    ).main(argv)


if __name__ == "__main__":
    sys.exit(main())
