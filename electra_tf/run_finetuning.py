"""Fine-tunes a pre-trained ELECTRA on labelled rows, or on tasks by name.

python -m electra_tf.run_finetuning --gin_file=gin/finetune/rte.gin \\
    --init_checkpoint=models/electra_small --data_dir=glue

python -m electra_tf.run_finetuning --init_checkpoint=models/electra_small \\
    --train_file=train.tsv --dev_file=dev.tsv --model_dir=models/mine

python -m electra_tf.run_finetuning --data-dir data --model-name mine \\
    --hparams '{"model_size": "base", "task_names": ["rte"]}'

Run it again after an interruption and it goes on from its last checkpoint.
"""

from absl import flags

# Registers QuestionAnsweringConfig for gin.
from electra_tf import configs  # noqa: F401
from electra_tf.command_line import launch, original_hparams
from electra_tf.finetuning import configs as finetuning_configs

# What gin/finetuning.gin sets, for a run without a file.
DEFAULTS = (
    "FinetuningConfig.data = @FinetuningDataConfig()",
    "FinetuningConfig.optimizer = @OptimizerConfig()",
    "FinetuningConfig.run = @RunConfig()",
    "OptimizerConfig.learning_rate = None",
    "OptimizerConfig.layerwise_lr_decay = None",
    "OptimizerConfig.warmup_proportion = 0.1",
    "RunConfig.keep_checkpoint_max = 1",
)

# Flag -> the parameter that it overrides.
BINDINGS = {
    "init_checkpoint": "FinetuningConfig.init_checkpoint",
    "train_file": "FinetuningDataConfig.train_file",
    "dev_file": "FinetuningDataConfig.dev_file",
    "test_file": "FinetuningDataConfig.test_file",
    "folds": "FinetuningDataConfig.folds",
    "task_type": "FinetuningDataConfig.task_type",
    "text_columns": "FinetuningDataConfig.text_columns",
    "label_column": "FinetuningDataConfig.label_column",
    "task_names": "FinetuningDataConfig.task_names",
    "data_dir": "FinetuningDataConfig.data_dir",
    "vocab_file": "FinetuningDataConfig.vocab_file",
    "max_seq_length": "FinetuningDataConfig.max_seq_length",
    "num_train_epochs": "FinetuningDataConfig.num_train_epochs",
    "learning_rate": "OptimizerConfig.learning_rate",
    "num_trials": "FinetuningConfig.num_trials",
    "reseed_degenerate": "FinetuningConfig.reseed_degenerate",
}


def _define_flags() -> None:
    """Flags for what is different in every run; the rest is gin's."""
    for name, text in (
        (
            "init_checkpoint",
            "Pre-trained model: a model directory, or a checkpoint of any "
            "format that tools/convert_checkpoint.py reads.",
        ),
        (
            "train_file",
            "Labelled rows, .tsv, .csv or .jsonl: one text column or two, and "
            "a label column.",
        ),
        ("dev_file", "Like --train_file: the rows to score."),
        ("test_file", "Like --train_file, labels optional; scored at the end."),
        (
            "text_columns",
            "One or two columns of the files, separated by a comma, where "
            "they do not have the usual names.",
        ),
        ("label_column", "Likewise, one column."),
        (
            "task_names",
            "Tasks by name, such as rte, instead of files; several, separated "
            "by commas, are trained jointly.",
        ),
        ("data_dir", "Where the files of --task_names are."),
        (
            "vocab_file",
            "Vocabulary, where it is not beside --init_checkpoint.",
        ),
    ):
        flags.DEFINE_string(name, None, text)
    flags.DEFINE_enum(
        "task_type",
        None,
        ["auto", *finetuning_configs.TASK_TYPES],
        "What the labels of the files are; auto finds it out.",
    )
    for name, text in (
        (
            "folds",
            "Cross-validation over --train_file, instead of --dev_file: as "
            "many models, each scored on the rows that it has not seen.",
        ),
        ("max_seq_length", "Longer texts are cut."),
        ("num_trials", "Models with different seeds."),
        (
            "reseed_degenerate",
            "How often a model that says the same of every row is trained "
            "again with another seed.",
        ),
    ):
        flags.DEFINE_integer(name, None, text)
    for name, text in (
        ("num_train_epochs", "Passes over the training rows."),
        (
            "learning_rate",
            "Peak learning rate; the default follows the model's size.",
        ),
    ):
        flags.DEFINE_float(name, None, text)


def _run(config, before_training) -> None:
    # Imports TensorFlow: late, so that mistakes in a gin file show at once.
    import tensorflow as tf

    from electra_tf.finetuning import finetune, results

    # It warns of a new graph after some trials: each has one of its own.
    tf.get_logger().setLevel("ERROR")
    found = finetune.finetune(config, before_training)
    if found is None:  # Another worker speaks for the run.
        return
    print(results.format_results(found))
    print(f"fine-tuned model: {config.run.model_dir}")


if __name__ == "__main__":
    _define_flags()
    flags.adopt_module_key_flags(launch)
    launch.launch(
        "run_finetuning",
        finetuning_configs.FinetuningConfig,
        _run,
        original_hparams.finetuning,
        BINDINGS,
        DEFAULTS,
        ("init_checkpoint", "model_dir"),
    )
