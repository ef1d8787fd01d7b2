"""Exports a model as a SavedModel that TF Serving can serve.

    electra-tf export \\
        --model_dir=build/quickstart/finetune_pretrained \\
        --output=build/quickstart/saved_model

writes the next free version (1, 2, ...) below --output, and beside the versions
what the server needs: models.config, batching_parameters.txt, compose.yaml.
--model_dir is a fine-tuning run, a pre-training run or a checkpoint of any
other format. What the model does follows from its fine-tuned head; without
one it says of each token whether it was replaced, or with --kind=encoding gives
the encoder's vectors: docs/reference/signatures.md has inputs and outputs.
"""

import argparse
import os
import sys

from electra_tf.command_line import arguments
from electra_tf.serving import kinds


def main(argv=None) -> int:
    """Parses the flags and exports; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf export", __doc__)
    add = parser.add_argument
    add(
        "--model-dir",
        required=True,
        help="directory of a run, or a checkpoint of another format",
    )
    add("--output", required=True, help="directory of the versions")
    arguments.add_vocabulary(parser)
    add(
        "--format",
        choices=("saved_model", "litert"),
        default="saved_model",
        help="litert: files for phones, on token ids (default: %(default)s)",
    )
    add(
        "--kind",
        choices=(kinds.AUTO, *kinds.KINDS),
        default=kinds.AUTO,
        help="what the model does (default: that of its head)",
    )
    add(
        "--pairs",
        dest="has_pairs",
        action=argparse.BooleanOptionalAction,
        help="whether the input is two texts (default: as in training)",
    )
    add(
        "--max-seq-length",
        type=arguments.positive_int,
        help="tokens of the longest input (default: as in training)",
    )
    return arguments.run(_export, parser, argv)


def _export(args) -> None:
    from absl import logging

    logging.set_verbosity(logging.WARNING)
    asked = vars(args)
    is_litert = asked.pop("format") == "litert"
    output = asked.pop("output")
    # Imports TensorFlow: late, so that --help is quick.
    if is_litert:
        from electra_tf.serving import on_device

        for path in on_device.export(output_dir=output, **asked):
            megabytes = os.path.getsize(path) / 1e6
            print(f"exported {path} ({megabytes:.1f} MB)")
        return
    from electra_tf.serving import saved_model

    path = saved_model.export(output_dir=output, **asked)
    print(f"exported {path}")


if __name__ == "__main__":
    sys.exit(main())
