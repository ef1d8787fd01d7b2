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

# Fields that are different in every run, each with a flag; the rest is gin's.
_FIELDS = {
    finetuning_configs.FinetuningConfig: (
        "init_checkpoint class_weights num_trials reseed_degenerate keep_head "
        "early_stopping_patience pooling"
    ),
    finetuning_configs.FinetuningDataConfig: (
        "train_file dev_file test_file text_columns label_column label_names "
        "label_separator task_names data_dir vocab_file folds max_seq_length "
        "window_stride eval_only has_header skip_empty_texts task_type "
        "long_texts dev_fraction num_train_epochs"
    ),
    configs.OptimizerConfig: "learning_rate",
}
# Flag -> the parameter that it overrides.
BINDINGS = {
    name: f"{cls.__name__}.{name}"
    for cls, names in _FIELDS.items()
    for name in names.split()
} | {"batch_size": "FinetuningDataConfig.train_batch_size"}


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
    launch.add_fields(
        parser,
        BINDINGS,
        *_FIELDS,
        task_type=("auto", *finetuning_configs.TASK_TYPES),
        long_texts=finetuning_configs.LONG_TEXTS,
        pooling=configs.POOLINGS,
    )
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
