"""What the models of the paper's tables cost to train and to run.

Figures of arXiv:2003.10555, counted as `flops.Transformer` counts.
"""

import dataclasses
from collections.abc import Callable

from electra_tf.model.flops import (
    FORWARD_PASSES_OF_A_STEP,
    Transformer,
    electra_train_flops,
)


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


def _transformer(
    batch_size: int,
    train_steps: float,
    hidden_size: int,
    num_hidden_layers: int,
    generator_hidden_size: int | None = None,
    **sizes,
) -> Callable[[int, bool], Cost]:
    """BERT and its kind; ELECTRA, where there is a generator.

    That one has as many layers, and tied embeddings.
    """

    def cost(infer_length: int, corrected: bool) -> Cost:
        model = Transformer(
            hidden_size, num_hidden_layers, corrected=corrected, **sizes
        )
        short = dataclasses.replace(model, max_seq_length=infer_length)
        if generator_hidden_size is None:
            train_flops = model.train_flops(batch_size, train_steps)
        else:
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
    "gpt": _transformer(
        128, 960800, 768, 12, vocab_size=40000, output_fraction=1.0
    ),
    "bert_small": _transformer(
        128, 1.45e6, 256, 12, embedding_size=128, max_seq_length=128
    ),
    "bert_base": _transformer(256, 1e6, 768, 12),
    "bert_large": _transformer(256, 1e6, 1024, 24),
    "xlnet": _xlnet,
    # Treated as BERT: what sets these apart hardly changes the count.
    "roberta": _transformer(8000, 500000, 1024, 24, vocab_size=50265),
    "albert": _transformer(
        4096, 1.5e6, 4096, 12, vocab_size=30000, embedding_size=128
    ),
    "t5_11b": _t5_11b,
    "electra_small": _transformer(
        128, 1e6, 256, 12, 64, embedding_size=128, max_seq_length=128
    ),
    "electra_base": _transformer(256, 766000, 768, 12, 256),
    "electra_400k": _transformer(2048, 400000, 1024, 24, 256),
    "electra_1.75M": _transformer(2048, 1.75e6, 1024, 24, 256),
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
