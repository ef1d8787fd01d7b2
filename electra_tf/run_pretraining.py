"""Pre-trains ELECTRA.

electra-tf pretrain --gin_file=gin/base.gin

electra-tf pretrain --data-dir data --model-name mine \\
    --hparams '{"model_size": "base"}'

Run it again after an interruption and it goes on from its last checkpoint.
"""

import sys

from electra_tf import configs
from electra_tf.command_line import launch, original_hparams

# Flag -> the parameter that it overrides.
BINDINGS = {"batch_size": "PretrainingDataConfig.train_batch_size"}


def _run(config, before_training, args) -> None:
    # Imports TensorFlow: late, so that mistakes in a gin file show at once.
    from electra_tf import pretraining
    from electra_tf.checkpoints import continuing
    from electra_tf.training import workers

    metrics: dict[str, float] | None
    with workers.lost(config.run.model_dir):
        if args.eval_only:
            named = " ".join(args.gin_param)
            if "init_checkpoint" in named and "init_generator" not in named:
                # The generator that a gin file names is of another checkpoint.
                config = continuing.with_own_generator(config)
            metrics = pretraining.evaluate(config)
        else:
            metrics = pretraining.pretrain(config, before_training)
    if metrics is None:  # Another worker speaks for the run.
        return
    if metrics:
        print("held-out:")
        for name, value in metrics.items():
            print(f"  {name:28} {value:.4f}")
    if not args.eval_only:
        print(f"pre-trained model: {config.run.model_dir}")


def main(argv=None) -> int:
    """Parses the flags and trains; returns the exit code."""
    parser = launch.make_parser("electra-tf pretrain", __doc__)
    line = "With --model_name: the folder with pretrain_tfrecords/, vocab.txt "
    parser.add_values(str, data_dir=f"{line}and models/.")
    line = "Train nothing: score the model in --model_dir, or without one "
    line += "PretrainingConfig.init_checkpoint, on the held-out examples."
    parser.add_values(bool, eval_only=line)
    launch.add_fields(parser, BINDINGS, configs.PretrainingDataConfig)
    return launch.Command(
        parser,
        configs.PretrainingConfig,
        _run,
        original_hparams.pretraining,
        BINDINGS,
    ).main(argv)


if __name__ == "__main__":
    sys.exit(main())
