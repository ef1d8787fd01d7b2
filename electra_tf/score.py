"""Scores sentences by their pseudo-log-likelihood under a pre-trained model.

    electra-tf score --checkpoint=models/electric < sentences.txt

The score of a text is the sum over its tokens of log p(token | all others), in
nats: the higher, the more natural. Electric says it in one pass over the text,
a masked language model or ELECTRA's generator in one pass for each token. The
checkpoint may be of any format that has such a model.

Texts are arguments, lines of --file or of standard input; a tab is part of a
text. Prints one JSON object a line: text, score, num_tokens, per_token (the
mean) and perplexity, exp(-per_token). --sort prints the best first.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from electra_tf.command_line import arguments, progress, text_lines
from electra_tf.command_line.text_lines import Line
from electra_tf.inference import scored_text
from electra_tf.inference.scored_text import ScoredText

# Texts that are read before the first is answered; those of one length go
# through the network together.
_TEXTS_AT_ONCE = 64


def _score(args: argparse.Namespace) -> None:
    batches = text_lines.read_batches(
        args.text, args.file, max(_TEXTS_AT_ONCE, args.batch_size)
    )
    # Imports TensorFlow: late, so that --help is quick.
    from electra_tf.inference import scorer as scorer_lib

    scorer = scorer_lib.Scorer(
        *(args.checkpoint, args.vocab_file, args.method, args.batch_size),
        do_lower_case=args.do_lower_case,
    )
    arguments.say("electra-tf score", scorer_lib.DESCRIPTIONS[scorer.method])

    def score(batch: list[Line]) -> list[ScoredText]:
        return scorer.score(
            [text_lines.decode(line.content) for line in batch],
            args.tokens,
            args.truncate,
            [line.place for line in batch],
        )

    answers: Iterable[list[ScoredText]] = _answered(batches, score)
    if args.sort:
        every = list(batches)
        total = sum(map(len, every))
        live = progress.Progress("scoring", total, "text", sys.stderr.isatty())
        kept: list[ScoredText] = []
        for scored in map(score, every):
            kept += scored
            live.update(len(kept))
        live.close()
        answers = [scored_text.best_first(kept)]
    num_scored = num_cut = 0
    for scored in answers:
        for text in scored:
            print(scored_text.as_json(text, args.tokens, args.truncate))
        sys.stdout.flush()
        num_scored += len(scored)
        num_cut += sum(text.num_left_out > 0 for text in scored)
    if num_cut:
        arguments.say(
            "electra-tf score",
            f"cut {num_cut} of {num_scored} texts after {scorer.most_tokens} "
            "tokens",
        )


def _answered(
    batches: Iterable[list[Line]],
    score: Callable[[list[Line]], list[ScoredText]],
) -> Iterator[list[ScoredText]]:
    """Batch by batch; of one with a text that is refused, what is before it."""
    for batch in batches:
        try:
            scored = score(batch)
        except ValueError:
            for line in batch:
                yield score([line])
            raise
        yield scored


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and scores; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf score", __doc__)
    add = parser.add_argument
    text_lines.add_arguments(parser)
    line = "a pre-trained checkpoint of any format: Electric, a masked "
    line += "language model, or an ELECTRA with its generator"
    add("--checkpoint", required=True, help=line)
    arguments.add_vocabulary(parser)
    line = "default: one_pass for Electric, masked for the others"
    auto, known = scored_text.AUTO, scored_text.METHODS
    add("--method", choices=known, default=auto, help=line)
    line = "print each token's score and place, too"
    add("--tokens", action="store_true", help=line)
    line = "print the highest score first, once all texts are read"
    add("--sort", action="store_true", help=line)
    line = "score the beginning of a text that is too long for the model "
    line += "(default: stop there)"
    add("--truncate", action="store_true", help=line)
    line = "rows that go through the network at once (default: %(default)s)"
    add("--batch-size", type=arguments.positive_int, default=32, help=line)
    return arguments.run(_score, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
