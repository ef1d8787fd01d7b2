"""Networks -> their weights, and what a step keeps in memory."""

from collections.abc import Sequence

from electra_tf import configs
from electra_tf.model import flops


def num_parameters(networks: Sequence[flops.Network]) -> int:
    """Weights of some networks and their heads, by arithmetic."""
    total = 0
    for network in networks:
        of_tower = 0
        if network.has_own_layers:
            of_tower += _encoder_parameters(network.encoder)
        if network.has_own_embeddings:
            of_tower += _embedding_parameters(network.encoder)
        total += network.num_towers * of_tower + _head_parameters(network)
        total += network.num_other_weights
    return total


def _head_parameters(network: flops.Network) -> int:
    encoder, total = network.encoder, 0
    hidden, width = encoder.hidden_size, encoder.embedding_size or 0
    if network.num_verdicts:
        total += hidden * hidden + hidden + hidden + 1
    if network.num_softmaxes:
        total += network.num_towers * hidden * width + width
        total += 2 * width + encoder.vocab_size
    if network.num_numbers:
        total += hidden + 1
    return total


def _embedding_parameters(config: configs.EncoderConfig) -> int:
    rows = config.vocab_size + config.type_vocab_size
    rows += config.max_position_embeddings + 2  # And LayerNorm.
    return rows * (config.embedding_size or config.hidden_size)


def _encoder_parameters(config: configs.EncoderConfig) -> int:
    hidden, wide = config.hidden_size, config.intermediate_size
    attention = 4 * (hidden * hidden + hidden) + 2 * hidden
    feed_forward = 2 * hidden * wide + wide + hidden + 2 * hidden
    total = config.num_hidden_layers * (attention + feed_forward)
    if config.embedding_size != hidden:
        total += (config.embedding_size or hidden) * hidden + hidden
    return total


def activation_bytes(
    networks: Sequence[flops.Network], examples: float, width: int
) -> float:
    """What the backward pass needs of the forward pass.

    A layer keeps, of each token, about: the input, queries, keys, values,
    context and both normalised sums (9 vectors with their dropout draws), the
    wide activation three times, and of each head its scores twice and the
    draws; a softmax over the vocabulary its logits, their exponentials and
    gradients in float32. What does not learn keeps nothing.

    Args:
      networks: Of `ablations.networks`.
      examples: At once.
      width: Bytes of a number.
    """
    total = 0.0
    for network in networks:
        if not network.is_trained:
            continue
        encoder, length = network.encoder, network.length
        token = 9 * encoder.hidden_size + 3 * encoder.intermediate_size
        scores = encoder.num_attention_heads * length * (width + 4 + 2)
        layers = network.num_towers * encoder.num_hidden_layers
        total += layers * length * (token * width + scores)
        total += 3 * 4 * network.num_softmaxes * encoder.vocab_size
    return examples * total
