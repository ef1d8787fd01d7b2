"""Pre-trains ELECTRA.

electra-tf pretrain --gin_file=gin/base.gin

electra-tf pretrain --data-dir data --model-name mine \\
    --hparams '{"model_size": "base"}'

Run it again after an interruption and it goes on from its last checkpoint.
"""

from absl import flags

from electra_tf import configs
from electra_tf.command_line import launch, original_hparams


def _run(config, before_training) -> None:
    # Imports TensorFlow: late, so that mistakes in a gin file show at once.
    from electra_tf import pretraining
    from electra_tf.training import workers

    scores_only = flags.FLAGS.eval_only
    metrics: dict[str, float] | None
    with workers.lost(config.run.model_dir):
        if scores_only:
            metrics = pretraining.evaluate(config)
        else:
            metrics = pretraining.pretrain(config, before_training)
    if metrics is None:  # Another worker speaks for the run.
        return
    if metrics:
        print("held-out:")
        for name, value in metrics.items():
            print(f"  {name:28} {value:.4f}")
    if not scores_only:
        print(f"pre-trained model: {config.run.model_dir}")


if __name__ == "__main__":
    flags.DEFINE_string(
        "data_dir",
        None,
        "With --model_name: the folder with pretrain_tfrecords/, vocab.txt and "
        "models/.",
    )
    flags.DEFINE_boolean(
        "eval_only",
        False,
        "Train nothing: score the model in --model_dir, or without one "
        "PretrainingConfig.init_checkpoint, on the held-out examples.",
    )
    flags.adopt_module_key_flags(launch)
    launch.launch(
        "run_pretraining",
        configs.PretrainingConfig,
        _run,
        original_hparams.pretraining,
    )
