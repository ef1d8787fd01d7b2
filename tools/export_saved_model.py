"""Exports a fine-tuned model as a SavedModel that TF Serving can serve.

python tools/export_saved_model.py \
    --model_dir=build/quickstart/finetune_pretrained \
    --output=build/quickstart/saved_model

writes the next free version (1, 2, ...) below --output. Its serving_default
signature takes `text` <string>[B] and returns `label` <string>[B] and `scores`
<float32>[B, labels].
"""

import os
import sys

from electra_tf import command_line


def main(argv=None) -> int:
    """Parses the flags and exports; returns the exit code."""
    parser = command_line.ArgumentParser(
        prog="export_saved_model", description=__doc__
    )
    parser.add_argument(
        "--model-dir",
        required=True,
        help="directory of a fine-tuning run, or a fine-tuned checkpoint of "
        "another format",
    )
    parser.add_argument(
        "--output", required=True, help="directory of the versions"
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return command_line.run(_export, parser, argv)


def _export(args) -> None:
    from absl import logging

    logging.set_verbosity(logging.WARNING)
    # Imports TensorFlow: late, so that --help is quick.
    from electra_tf.serving import saved_model

    path = saved_model.export(args.model_dir, args.output)
    print(f"exported {path}")


if __name__ == "__main__":
    sys.exit(main())
