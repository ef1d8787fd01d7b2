"""Shows how likely a pre-trained model takes each token for a replaced one.

    electra-tf detect --checkpoint=models/electra_small \\
        "The chef ate the meal"

The checkpoint may be of any format that has the discriminator's head: a
pre-training run, the original's, Hugging Face's `electra-*-discriminator`, and
so on. Texts are arguments, lines of --file or of standard input, and may be of
any length.

Prints each text and below it its tokens with their probabilities in per cent.
--json prints one object a line instead, with character offsets; --html writes a
page in colour as well.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence

from electra_tf import files
from electra_tf.command_line import arguments, text_lines
from electra_tf.inference import judged_text

_BATCH_SIZE = 64


def _detect(args: argparse.Namespace) -> None:
    batches = text_lines.read_batches(args.text, args.file, _BATCH_SIZE)
    # Imports TensorFlow: late, so that --help is quick.
    from electra_tf.inference import detector

    model = detector.Detector(
        args.checkpoint, args.vocab_file, args.do_lower_case
    )
    width = shutil.get_terminal_size().columns
    kept: list[judged_text.JudgedText] = []
    for batch in batches:
        texts = [text_lines.decode(line.content) for line in batch]
        for judged in model.judge(texts):
            if args.json:
                print(judged_text.as_json(judged))
            else:
                print(*judged_text.as_lines(judged, width), "", sep="\n")
            if args.html:
                kept.append(judged)
        sys.stdout.flush()
    if args.html:
        files.write_atomically(
            args.html, judged_text.render(kept, args.checkpoint)
        )
        arguments.say("electra-tf detect", f"wrote {args.html}")


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and judges; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf detect", __doc__)
    add = parser.add_argument
    text_lines.add_arguments(parser)
    line = "a pre-trained checkpoint of any format, with the discriminator's "
    add("--checkpoint", required=True, help=f"{line}head")
    arguments.add_vocabulary(parser)
    add("--html", metavar="FILE", help="write a page, too")
    add("--json", action="store_true", help="print JSON lines instead")
    return arguments.run(_detect, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
