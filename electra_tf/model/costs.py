"""What a model costs: operations, weights and memory, and the paper's table.

Two counts of the operations of one model, for two questions. `Transformer`
counts as the released code of arXiv:2003.10555 counts for its tables: every
operation on a number, a training step for twice its forward pass, words looked
up by one-hot matrix products. `of_pretraining_step` counts likewise for every
objective, to compare them at equal compute. `of_training_example` counts what
keeps a machine busy, as the share of its matrix product rate (MFU) is usually
stated: matrix products alone, three times the forward pass, nothing for
look-ups. Weights and memory come after them, last the models of those tables.

Shapes: L length, N slots for predictions, D hidden, E embedding, V vocabulary.
"""

import dataclasses
import typing
from collections.abc import Sequence

from electra_tf import configs

# Operations for one number.
DROPOUT = 4  # Draw, compare, mask, scale.
LAYER_NORM = 5  # Mean, square and sum for the variance, scale, shift.
GELU = 8
SOFTMAX = 5  # Maximum, subtract, exponential, sum, divide.
TARGET_LOG_PROBABILITY = 2

# Training steps cost as much as this many forward passes.
FORWARD_PASSES_OF_A_STEP = 2

# Tokens of an example from which on training computes a layer's attention twice
# rather than to keep it: for Base with 512 it is two thirds of what is kept.
RECOMPUTED_LENGTH = 512

# Share of the tokens that the output softmax of a masked language model
# scores: 80 of 512 or 20 of 128.
MASKED_FRACTION = 0.15625
# Tokens of the example that the paper counts inference for.
_INFER_LENGTH = 128


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
    def heads(self) -> int:
        return self.num_attention_heads or max(self.hidden_size // 64, 1)

    def attention_flops(self) -> int:
        """One attention: projections, scores, averages, output.

        The original counts its LayerNorm for one number, and averages and
        output as wide as the hidden vector where the heads together are wider.
        """
        hidden = self.hidden_size
        wide = self.heads * self.head_size if self.head_size else hidden
        projections = 3 * _dense(hidden, wide)
        scores = 2 * wide * self.max_seq_length
        # Scaling, softmax and dropout of a row of scores, for every head.
        row = (1 + SOFTMAX + DROPOUT) * self.max_seq_length
        probabilities = row * self.heads
        averaged = wide if self.corrected else hidden
        normalized = hidden if self.corrected else 1
        averages = 2 * averaged * self.max_seq_length
        output = _dense(averaged, hidden) + _residual(hidden, normalized)
        flops = projections + scores + probabilities + averages + output
        return self.max_seq_length * flops

    def feed_forward_flops(self) -> int:
        """One feed-forward block."""
        hidden = self.hidden_size
        wide = self.intermediate_size or 4 * hidden
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

    def embedding_flops_output(self, input_size: int | None = None) -> float:
        """The masked language model's head on its share of the tokens.

        It reads vectors of `input_size`; None for `hidden_size`.
        """
        width = self.embedding_width
        transform = _dense(input_size or self.hidden_size, width)
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
        """All operations of a pre-training.

        As a masked language model, or as a discriminator, where every token
        gets a binary verdict instead of some tokens a softmax.
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

    Without `tied_embeddings` the generator has tables of its own, as wide as
    its layers.
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


class Network(typing.NamedTuple):
    """One network of a pre-training, and what it says of an example.

    A class of `electra` or `ablations` says which ones it has.

    Attributes:
      encoder: Its sizes.
      length: Tokens of an example.
      num_softmaxes: Tokens that get a softmax over the vocabulary.
      num_verdicts: Tokens that get a binary verdict.
      num_numbers: Tokens that get one number more: the expected reward of a
        sample, or the chance that a token is copied.
      num_towers: Encoders side by side.
      is_trained: Whether it learns.
      has_own_layers: They are not those of the other network.
      has_own_embeddings: Likewise, of each tower.
      num_other_weights: Beside those of towers and heads.
    """

    encoder: configs.EncoderConfig
    length: int
    num_softmaxes: int = 0
    num_verdicts: int = 0
    num_numbers: int = 0
    num_towers: int = 1
    is_trained: bool = True
    has_own_layers: bool = True
    has_own_embeddings: bool = True
    num_other_weights: int = 0


def of_pretraining_step(networks: Sequence[Network], batch_size: int) -> float:
    """One pre-training step of any objective, as `Transformer` counts.

    Words are looked up, as this package does: counted as one-hot matrix
    products, as in the paper's tables, narrow models would pay for little else.
    A softmax is counted for the slots that there are, 79 of 512 tokens where
    the tables have 80. What is trained counts twice its forward pass, a frozen
    generator once. A generator that is no network costs nothing; one that is
    the discriminator is a pass of its own.

    Args:
      networks: Of `ablations.networks`.
      batch_size: Examples in a step.

    Returns:
      Operations.
    """
    return batch_size * sum(
        _flops(network)
        * (FORWARD_PASSES_OF_A_STEP if network.is_trained else 1)
        for network in networks
    )


def _flops(network: Network) -> float:
    """Forward pass of one example, as `Transformer` counts."""
    sizes = dataclasses.asdict(network.encoder)
    fields = [f.name for f in dataclasses.fields(Transformer)]
    model = Transformer(
        **{name: sizes[name] for name in fields if name in sizes},
        max_seq_length=network.length,
        output_fraction=network.num_softmaxes / network.length,
        sparse_embed_lookup=True,
    )
    flops = network.num_towers * model.encoder_flops()
    if network.num_verdicts:
        flops += model.binary_classification_flops()
    return (
        flops
        + model.embedding_flops_output(network.num_towers * model.hidden_size)
        + network.num_numbers * _dense(model.hidden_size, 1)
    )


def of_training_example(networks: Sequence[Network]) -> int:
    """Matrix products of one example in one training step.

    The backward pass has two matrix products of the same size for each of the
    forward pass, but a frozen generator has none. Padded positions are counted,
    since they are computed.

    Args:
      networks: Of `ablations.networks`.

    Returns:
      Operations, one for each multiplication and each addition.
    """
    return sum(
        of_forward_pass(network) * (3 if network.is_trained else 1)
        for network in networks
    )


def of_forward_pass(network: Network) -> int:
    """Matrix products of one example, forward through a network."""
    encoder, length = network.encoder, network.length
    products = sum(2 * i * o for i, o in _dense_layers(encoder))
    # Scores and averages of the attention.
    products += encoder.num_hidden_layers * 4 * encoder.hidden_size * length
    table = 2 * _width(encoder) * encoder.vocab_size
    return (
        network.num_towers * length * products
        + sum(2 * n * i * o for n, i, o in _dense_heads(network))
        + network.num_softmaxes * table
    )


def num_parameters(networks: Sequence[Network]) -> int:
    """Weights of some networks and their heads, by arithmetic."""
    total = 0
    for network in networks:
        encoder, tower = network.encoder, 0
        if network.has_own_layers:
            tower += sum(i * o + o for i, o in _dense_layers(encoder))
            # Two LayerNorms.
            tower += encoder.num_hidden_layers * 4 * encoder.hidden_size
        if network.has_own_embeddings:
            rows = encoder.vocab_size + encoder.type_vocab_size
            rows += encoder.max_position_embeddings + 2  # And LayerNorm.
            tower += rows * _width(encoder)
        total += network.num_towers * tower + network.num_other_weights
        total += sum(i * o + o for _, i, o in _dense_heads(network))
        if network.num_softmaxes:  # LayerNorm, and the output bias.
            total += 2 * _width(encoder) + encoder.vocab_size
    return total


def _width(config: configs.EncoderConfig) -> int:
    return config.embedding_size or config.hidden_size


def _dense_layers(config: configs.EncoderConfig) -> list[tuple[int, int]]:
    """Inputs and outputs of an encoder's dense layers, which see all tokens."""
    hidden, wide = config.hidden_size, config.intermediate_size
    layer = 4 * [(hidden, hidden)] + [(hidden, wide), (wide, hidden)]
    projection = [(_width(config), hidden)]
    return config.num_hidden_layers * layer + (
        projection if _width(config) != hidden else []
    )


def _dense_heads(network: Network) -> list[tuple[int, int, int]]:
    """Tokens, inputs and outputs of the dense layers of a network's heads."""
    hidden = network.encoder.hidden_size
    input_size = network.num_towers * hidden
    heads = (
        (network.num_verdicts, hidden, hidden),
        (network.num_verdicts, hidden, 1),
        (network.num_softmaxes, input_size, _width(network.encoder)),
        (network.num_numbers, hidden, 1),
    )
    return [head for head in heads if head[0]]


def activation_bytes(
    networks: Sequence[Network], examples: float, width: int
) -> float:
    """Bytes that the backward pass needs of the forward pass.

    A layer keeps, of each token, about: the input, queries, keys, values,
    context and both normalised sums (9 vectors with their dropout draws), the
    wide activation three times, and of each head its scores twice and the
    draws, which from `RECOMPUTED_LENGTH` on one layer has at a time; a softmax
    over the vocabulary its logits, their exponentials and gradients in float32.
    What does not learn keeps nothing. `width` is that of a number, in bytes.
    """
    total = 0.0
    for network in networks:
        if not network.is_trained:
            continue
        encoder, length = network.encoder, network.length
        token = 9 * encoder.hidden_size + 3 * encoder.intermediate_size
        scores = encoder.num_attention_heads * length * (width + 4 + 2)
        layers = network.num_towers * encoder.num_hidden_layers
        with_scores = 1 if length >= RECOMPUTED_LENGTH else layers
        total += length * (layers * token * width + with_scores * scores)
        total += 3 * 4 * network.num_softmaxes * encoder.vocab_size
    return examples * total


def training_bytes(
    networks: Sequence[Network], examples: int, at_once: int, width: int
) -> dict[str, float]:
    """What training keeps in the memory of one device.

    Args:
      networks: Of a step.
      examples: That the device has of a batch.
      at_once: In a micro-batch.
      width: Bytes of an activation.

    Returns:
      Part -> bytes.
    """
    trained = num_parameters([n for n in networks if n.is_trained])
    return {
        "weights": 4.0 * num_parameters(networks),
        "Adam": 8.0 * trained,
        "gradients": 4.0 * trained * (1 if at_once == examples else 2),
        "activations": activation_bytes(networks, at_once, width),
    }


def most_at_once(
    networks: Sequence[Network], examples: int, width: int, memory: float
) -> int:
    """The largest micro-batch that fits, or 1 where none does.

    Args:
      networks: Of a step.
      examples: That the device has of a batch; a micro-batch divides them.
      width: Bytes of an activation.
      memory: Bytes of the device; 0 where they are not limited.
    """
    sizes = [n for n in range(examples, 0, -1) if examples % n == 0]
    for at_once in sizes:
        needed = training_bytes(networks, examples, at_once, width)
        if fits(sum(needed.values()), memory):
            return at_once
    return 1


def fits(needed: float, memory: float) -> bool:
    """Whether a tenth of a device's memory is left; 0 is without a limit."""
    return not memory or needed < 0.9 * memory


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


def model_costs(corrected: bool = False) -> dict[str, Cost]:
    """Every model of the paper's tables, by its name in the original.

    Args:
      corrected: See `Transformer`.

    Returns:
      Name -> cost.
    """

    def bert(
        batch_size, train_steps, hidden_size, layers, generator=None, **sizes
    ) -> Cost:
        """BERT and its kind; ELECTRA, where a generator has a hidden size."""
        model = Transformer(hidden_size, layers, corrected=corrected, **sizes)
        short = dataclasses.replace(model, max_seq_length=_INFER_LENGTH)
        if generator is None:
            train_flops = model.train_flops(batch_size, train_steps)
        else:
            train_flops = electra_train_flops(
                model, generator, layers, batch_size, train_steps
            )
        return Cost(train_flops, short.infer_flops(), _INFER_LENGTH)

    electra_large = {"hidden_size": 1024, "layers": 24, "generator": 256}
    return {
        # Counts by TensorFlow, as the original has them: a forward pass over 20
        # examples of 128 words with the softmax; 10 epochs over the 768,648,884
        # words of the LM1B benchmark.
        "elmo": Cost(
            2 * 10 * 768648884 * 568093262680 / (20 * 128),
            568093262680 / 20,
            128,
        ),
        "gpt": bert(
            128, 960800, 768, 12, vocab_size=40000, output_fraction=1.0
        ),
        "bert_small": bert(
            128, 1.45e6, 256, 12, embedding_size=128, max_seq_length=128
        ),
        "bert_base": bert(256, 1e6, 768, 12),
        "bert_large": bert(256, 1e6, 1024, 24),
        # Relative attention, over 32 examples of 512 tokens; 500,000 steps of
        # 8192 examples.
        "xlnet": Cost(
            2 * 500000 * 8192 * 15064773691518 / 32, 15064773691518 / 32, 512
        ),
        # Treated as BERT: what sets these apart hardly changes the count.
        "roberta": bert(8000, 500000, 1024, 24, vocab_size=50265),
        "albert": bert(
            4096, 1.5e6, 4096, 12, vocab_size=30000, embedding_size=128
        ),
        "t5_11b": _t5_11b(corrected),
        "electra_small": bert(
            128, 1e6, 256, 12, 64, embedding_size=128, max_seq_length=128
        ),
        "electra_base": bert(256, 766000, 768, 12, 256),
        "electra_400k": bert(2048, 400000, **electra_large),
        "electra_1.75M": bert(2048, 1.75e6, **electra_large),
    }


def _t5_11b(corrected: bool) -> Cost:
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
    train_flops = infer_flops = 0.0
    for half in (encoder, decoder):
        train_flops += half.train_flops(batch_size=2048, train_steps=1e6)
        short = dataclasses.replace(half, max_seq_length=_INFER_LENGTH)
        infer_flops += short.encoder_flops() + short.embedding_flops_output()
    return Cost(train_flops, infer_flops, _INFER_LENGTH)


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
