"""Prints what it costs to train and to run ELECTRA and its contemporaries.

    python tools/flops_computation.py

The figures are those behind the tables of arXiv:2003.10555, counted as its
released code counts them: an operation is one addition, multiplication or
function of a number, a matrix product has two for each entry pair, and a
training step costs twice its forward pass. Text is looked up by one-hot matrix
products, as on a TPU.

Two terms of that count are smaller than what they stand for, and kept because
the published figures contain them; --corrected counts them in full:

* The LayerNorm after the attention is counted for one number instead of for
  the whole hidden vector.
* Where the heads together are wider than the hidden vector (T5-11B), the
  weighted average of values and the output projection are counted as wide as
  the hidden vector.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence

from electra_tf import command_line

# Operations for one number.
DROPOUT = 4  # Draw, compare, mask, scale.
LAYER_NORM = 5  # Mean, square and sum for the variance, scale, shift.
GELU = 8
SOFTMAX = 5  # Maximum, subtract, exponential, sum, divide.
TARGET_LOG_PROBABILITY = 2

# Training steps cost as much as this many forward passes.
FORWARD_PASSES_OF_A_STEP = 2

# Share of the tokens that the output softmax of a masked language model
# scores: 80 of 512 or 20 of 128.
MASKED_FRACTION = 0.15625


@dataclasses.dataclass(frozen=True)
class Transformer:
    """Sizes of one transformer, and the operations of its parts.

    Every method counts one forward pass over one example.

    Attributes:
      hidden_size: Width of the layers.
      num_hidden_layers: Transformer layers.
      max_seq_length: Tokens of the example.
      vocab_size: Entries in the vocabulary.
      embedding_size: Width of the embedding tables; None for `hidden_size`.
      intermediate_size: Width of the feed-forward layer; None for 4 times
        `hidden_size`.
      num_attention_heads: None for heads of 64 dimensions.
      head_size: None for `hidden_size` divided by the heads.
      output_fraction: Share of the tokens that the output softmax scores.
      sparse_embed_lookup: Look words up instead of multiplying by one-hot
        vectors, which costs nothing.
      is_decoder: Every layer attends twice: to itself and to an encoder.
      corrected: Count the two terms in full that the original counts in part.
    """

    hidden_size: int
    num_hidden_layers: int
    max_seq_length: int = 512
    vocab_size: int = 30522
    embedding_size: int | None = None
    intermediate_size: int | None = None
    num_attention_heads: int | None = None
    head_size: int | None = None
    output_fraction: float = MASKED_FRACTION
    sparse_embed_lookup: bool = False
    is_decoder: bool = False
    corrected: bool = False

    @property
    def embedding_width(self) -> int:
        return self.embedding_size or self.hidden_size

    @property
    def feed_forward_width(self) -> int:
        return self.intermediate_size or 4 * self.hidden_size

    @property
    def heads(self) -> int:
        return self.num_attention_heads or max(self.hidden_size // 64, 1)

    @property
    def attention_width(self) -> int:
        """All heads together."""
        if self.head_size is None:
            return self.hidden_size
        return self.heads * self.head_size

    def attention_flops(self) -> int:
        """One attention: projections, scores, averages, output."""
        hidden, wide = self.hidden_size, self.attention_width
        averaged = wide if self.corrected else hidden
        normalized = hidden if self.corrected else 1
        projections = 3 * _dense(hidden, wide)
        scores = 2 * wide * self.max_seq_length
        # Scaling, softmax and dropout of a row of scores, for every head.
        probabilities = (1 + SOFTMAX + DROPOUT) * self.max_seq_length
        averages = 2 * averaged * self.max_seq_length
        output = _dense(averaged, hidden) + _residual(hidden, normalized)
        return self.max_seq_length * (
            projections
            + scores
            + probabilities * self.heads
            + averages
            + output
        )

    def feed_forward_flops(self) -> int:
        """One feed-forward block."""
        hidden, wide = self.hidden_size, self.feed_forward_width
        up = _dense(hidden, wide) + GELU * wide
        down = _dense(wide, hidden) + _residual(hidden, hidden)
        return self.max_seq_length * (up + down)

    def block_flops(self) -> int:
        """One transformer layer."""
        attentions = 2 if self.is_decoder else 1
        return attentions * self.attention_flops() + self.feed_forward_flops()

    def embedding_flops_input(self) -> int:
        """Look-ups, their sum and its normalisation, projection."""
        width = self.embedding_width
        words = 0 if self.sparse_embed_lookup else 2 * width * self.vocab_size
        segments = 2 * width * 2
        positions = 2 * width * self.max_seq_length
        sums = 2 * width
        flops = words + segments + positions + sums
        flops += (LAYER_NORM + DROPOUT) * width
        if width != self.hidden_size:
            flops += _dense(width, self.hidden_size)
        return self.max_seq_length * flops

    def embedding_flops_output(self) -> float:
        """The masked language model's head on its share of the tokens."""
        width = self.embedding_width
        transform = _dense(self.hidden_size, width)
        transform += (GELU + LAYER_NORM) * width
        logits = 2 * width * self.vocab_size
        softmax = (SOFTMAX + TARGET_LOG_PROBABILITY) * self.vocab_size
        # Multiplied in this order: the result is exact for whole shares.
        scored_tokens = self.output_fraction * self.max_seq_length
        return scored_tokens * (transform + logits + softmax)

    def binary_classification_flops(self) -> int:
        """The discriminator's head on every token."""
        hidden = self.hidden_size
        transform = _dense(hidden, hidden) + GELU * hidden
        return self.max_seq_length * (transform + 2 * hidden)

    def encoder_flops(self) -> int:
        """Embeddings and all layers, without a head."""
        blocks = self.num_hidden_layers * self.block_flops()
        return blocks + self.embedding_flops_input()

    def infer_flops(self) -> int:
        """A pass with a classification head, for one example."""
        return self.encoder_flops() + self.binary_classification_flops()

    def train_flops(
        self, batch_size: int, train_steps: float, discriminator: bool = False
    ) -> float:
        """Pre-training as a masked language model, or as a discriminator.

        Args:
          batch_size: Examples in one step.
          train_steps: Steps.
          discriminator: Whether every token gets a binary verdict instead of
            some tokens a softmax.

        Returns:
          Operations of the whole training.
        """
        head = (
            self.binary_classification_flops()
            if discriminator
            else self.embedding_flops_output()
        )
        step = FORWARD_PASSES_OF_A_STEP * batch_size
        return step * train_steps * (self.encoder_flops() + head)


def _dense(inputs: int, outputs: int) -> int:
    """One vector through a dense layer with its bias."""
    return 2 * inputs * outputs + outputs


def _residual(width: int, normalized: int) -> int:
    """Dropout, residual connection, LayerNorm of `normalized` numbers."""
    return DROPOUT * width + width + LAYER_NORM * normalized


def electra_train_flops(
    discriminator: Transformer,
    generator_hidden_size: int,
    generator_layers: int,
    batch_size: int,
    train_steps: float,
    tied_embeddings: bool = True,
) -> float:
    """Pre-training of a discriminator together with its generator.

    Args:
      discriminator: Sizes of the discriminator.
      generator_hidden_size: Width of the generator's layers.
      generator_layers: Transformer layers of the generator.
      batch_size: Examples in one step.
      train_steps: Steps.
      tied_embeddings: Whether the generator shares the embedding tables;
        otherwise its own are as wide as its layers.

    Returns:
      Operations of the whole training.
    """
    generator = dataclasses.replace(
        discriminator,
        hidden_size=generator_hidden_size,
        num_hidden_layers=generator_layers,
        embedding_size=(
            discriminator.embedding_width if tied_embeddings else None
        ),
        intermediate_size=None,
        num_attention_heads=None,
    )
    return generator.train_flops(
        batch_size, train_steps
    ) + discriminator.train_flops(batch_size, train_steps, discriminator=True)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one model of the paper's tables costs.

    Attributes:
      train_flops: Of the whole pre-training.
      infer_flops: Of one example of `infer_length` tokens.
      infer_length: Length of that example.
    """

    train_flops: float
    infer_flops: float
    infer_length: int


def _masked_lm(
    batch_size: int,
    train_steps: float,
    hidden_size: int,
    num_hidden_layers: int,
    **sizes,
) -> Callable[[int, bool], Cost]:
    """BERT and its kind."""

    def cost(infer_length: int, corrected: bool) -> Cost:
        model = Transformer(
            hidden_size, num_hidden_layers, corrected=corrected, **sizes
        )
        short = dataclasses.replace(model, max_seq_length=infer_length)
        return Cost(
            model.train_flops(batch_size, train_steps),
            short.infer_flops(),
            infer_length,
        )

    return cost


def _electra(
    batch_size: int,
    train_steps: float,
    hidden_size: int,
    num_hidden_layers: int,
    generator_hidden_size: int,
    **sizes,
) -> Callable[[int, bool], Cost]:
    """ELECTRA with a generator of as many layers and tied embeddings."""

    def cost(infer_length: int, corrected: bool) -> Cost:
        model = Transformer(
            hidden_size, num_hidden_layers, corrected=corrected, **sizes
        )
        short = dataclasses.replace(model, max_seq_length=infer_length)
        train_flops = electra_train_flops(
            model,
            generator_hidden_size,
            num_hidden_layers,
            batch_size,
            train_steps,
        )
        return Cost(train_flops, short.infer_flops(), infer_length)

    return cost


def _t5_11b(infer_length: int, corrected: bool) -> Cost:
    """An encoder without softmax and a decoder that predicts every token."""
    encoder = Transformer(
        hidden_size=1024,
        num_hidden_layers=24,
        vocab_size=32000,
        intermediate_size=65536,
        num_attention_heads=128,
        head_size=128,
        output_fraction=0.0,
        corrected=corrected,
    )
    decoder = dataclasses.replace(encoder, output_fraction=1.0, is_decoder=True)
    train_flops = sum(
        half.train_flops(batch_size=2048, train_steps=1e6)
        for half in (encoder, decoder)
    )
    infer_flops = 0.0
    for half in (encoder, decoder):
        short = dataclasses.replace(half, max_seq_length=infer_length)
        infer_flops += short.encoder_flops() + short.embedding_flops_output()
    return Cost(train_flops, infer_flops, infer_length)


def _elmo(infer_length: int, corrected: bool) -> Cost:
    """Not a transformer: a count by TensorFlow, as the original has it.

    10 epochs over the 768,648,884 words of the LM1B benchmark; a forward pass
    over 20 examples of 128 words takes 568,093,262,680 operations, its softmax
    included.
    """
    del infer_length, corrected
    forward, batch_size, length = 568093262680, 20, 128
    words = FORWARD_PASSES_OF_A_STEP * 10 * 768648884
    return Cost(
        words * forward / (batch_size * length), forward / batch_size, length
    )


def _xlnet(infer_length: int, corrected: bool) -> Cost:
    """Relative attention is not counted here: a count by TensorFlow.

    500,000 steps of 8192 examples; a forward pass over 32 examples of 512
    tokens takes 15,064,773,691,518 operations, as the original has it.
    """
    del infer_length, corrected
    forward, batch_size, length = 15064773691518, 32, 512
    examples = FORWARD_PASSES_OF_A_STEP * 500000 * 8192
    return Cost(examples * forward / batch_size, forward / batch_size, length)


# Name in the original -> cost of inference at a length, corrected or not.
MODELS: dict[str, Callable[[int, bool], Cost]] = {
    "elmo": _elmo,
    "gpt": _masked_lm(
        128, 960800, 768, 12, vocab_size=40000, output_fraction=1.0
    ),
    "bert_small": _masked_lm(
        128, 1.45e6, 256, 12, embedding_size=128, max_seq_length=128
    ),
    "bert_base": _masked_lm(256, 1e6, 768, 12),
    "bert_large": _masked_lm(256, 1e6, 1024, 24),
    "xlnet": _xlnet,
    # Treated as BERT: what sets these apart hardly changes the count.
    "roberta": _masked_lm(8000, 500000, 1024, 24, vocab_size=50265),
    "albert": _masked_lm(
        4096, 1.5e6, 4096, 12, vocab_size=30000, embedding_size=128
    ),
    "t5_11b": _t5_11b,
    "electra_small": _electra(
        128, 1e6, 256, 12, 64, embedding_size=128, max_seq_length=128
    ),
    "electra_base": _electra(256, 766000, 768, 12, 256),
    "electra_400k": _electra(2048, 400000, 1024, 24, 256),
    "electra_1.75M": _electra(2048, 1.75e6, 1024, 24, 256),
}


def model_costs(
    infer_length: int = 128, corrected: bool = False
) -> dict[str, Cost]:
    """Every model of the paper's tables.

    Args:
      infer_length: Tokens of the example that inference is counted for. ELMo
        and XLNet have figures for one length only.
      corrected: Count the two terms in full that the original counts in part.

    Returns:
      Name -> cost.
    """
    return {
        name: cost(infer_length, corrected) for name, cost in MODELS.items()
    }


def table(costs: dict[str, Cost]) -> str:
    """The costs as text, with training in multiples of ELECTRA-Small's."""
    unit = costs["electra_small"].train_flops
    lines = [
        f"{'model':<15}{'training FLOPs':>24}{'x small':>10}"
        f"{'inference FLOPs':>18}{'length':>8}"
    ]
    for name, cost in costs.items():
        lines.append(
            f"{name:<15}{cost.train_flops:>24.15e}"
            f"{cost.train_flops / unit:>10.1f}"
            f"{cost.infer_flops:>18.4e}{cost.infer_length:>8}"
        )
    return "\n".join(lines)


def make_parser() -> command_line.ArgumentParser:
    """The flags of this tool."""
    parser = command_line.ArgumentParser(
        prog="flops_computation", description=__doc__
    )
    parser.add_argument(
        "--infer-length",
        type=command_line.positive_int,
        default=128,
        help="tokens of the example that inference is counted for "
        "(default: %(default)s, as in the paper)",
    )
    parser.add_argument(
        "--corrected",
        action="store_true",
        help="count the two terms in full that the original counts in part",
    )
    return parser


def _print_table(args: argparse.Namespace) -> None:
    print(table(model_costs(args.infer_length, args.corrected)))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; returns the exit code."""
    return command_line.run(_print_table, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
