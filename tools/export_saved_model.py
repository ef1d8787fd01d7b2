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
    line = "directory of a run, or a checkpoint of another format"
    add("--model-dir", required=True, help=line)
    add("--output", required=True, help="directory of the versions")
    arguments.add_vocabulary(parser)
    formats = ("saved_model", "litert")
    line = "litert: files for phones, on token ids (default: %(default)s)"
    add("--format", choices=formats, default=formats[0], help=line)
    known = (kinds.AUTO, *kinds.KINDS)
    line = "what the model does (default: that of its head)"
    add("--kind", choices=known, default=kinds.AUTO, help=line)
    yes_or_no = argparse.BooleanOptionalAction
    line = "whether the input is two texts (default: as in training)"
    add("--pairs", dest="has_pairs", action=yes_or_no, help=line)
    line = "tokens of the longest input (default: as in training)"
    add("--max-seq-length", type=arguments.positive_int, help=line)
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
