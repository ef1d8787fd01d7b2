"""What run_pretraining and run_finetuning share: flags -> gin -> one call."""

import os
import sys
from collections.abc import Callable

from absl import app, flags, logging

from electra_tf import configs, gin_config, run_record

_GIN_FILE = flags.DEFINE_multi_string(
    "gin_file",
    [],
    "gin file; given several times, later ones override earlier ones.",
)
_GIN_PARAM = flags.DEFINE_multi_string(
    "gin_param",
    [],
    "gin binding that overrides the files, such as "
    "--gin_param='RunConfig.num_train_steps=1000'.",
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Overrides RunConfig.model_dir."
)


def launch(
    command: str,
    configurable: type,
    run: Callable[[object, Callable[[], None]], None],
) -> None:
    """Runs a command: 0 on success, 1 and one line on a user's mistake.

    A run that was told to stop and saved leaves with
    `training.EXIT_STOPPED`.

    Args:
      command: Name of the entry module, for messages.
      configurable: The configuration to build from gin.
      run: Takes the configuration, and what to call before the first step.
    """

    def main(argv):
        logging.set_verbosity(logging.WARNING)
        try:
            config, before_training = _configure(configurable, argv)
            _set_environment(config.run)
            run(config, before_training)
        except (ValueError, OSError) as error:
            return _fail(command, error)
        except RuntimeError as error:
            return _fail_or_stop(command, error)
        except KeyboardInterrupt:
            print(f"\n{command}: interrupted", file=sys.stderr)
            return 130
        return 0

    app.run(main)


def _set_environment(run: configs.RunConfig) -> None:
    """Sets what TensorFlow's C++ reads when it is imported.

    It prints less. Without a GPU that includes an error about CUDA, which is
    none.
    """
    if run.num_intra_op_threads:
        threads = str(run.num_intra_op_threads)
        os.environ["TF_NUM_INTRAOP_THREADS"] = threads
    uses_cpu = not run.num_gpus and run.distribution_strategy != "tpu"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if uses_cpu else "2")


def _configure(configurable, argv):
    """The configuration, and what to call before the first step."""
    if len(argv) > 1:
        raise configs.ConfigError(f"Unexpected argument {argv[1]!r}")
    if not _GIN_FILE.value:
        raise configs.ConfigError(
            "Expected --gin_file, such as --gin_file=gin/small.gin"
        )
    config = gin_config.load(configurable, _GIN_FILE.value, _gin_params())
    run_record.refuse_other_run(config)
    given = [
        f"--{flag.name}={flag.value}"
        for flag in flags.FLAGS.get_key_flags_for_module(__name__)
        if flag.present
    ]

    def before_training():
        run_record.write(config, gin_config.operative_config(), given)

    return config, before_training


def _gin_params() -> list[str]:
    params = list(_GIN_PARAM.value)
    if _MODEL_DIR.value:
        params.append(f"RunConfig.model_dir = {_MODEL_DIR.value!r}")
    return params


def _fail(command: str, error: Exception) -> int:
    line = " ".join(str(error).split())
    print(f"{command}: error: {line}", file=sys.stderr)
    return 1


def _fail_or_stop(command: str, error: RuntimeError) -> int:
    from electra_tf import training

    if isinstance(error, training.Stopped):
        print(error, file=sys.stderr)
        return training.EXIT_STOPPED
    if isinstance(error, training.TrainingError):
        return _fail(command, error)
    raise error
