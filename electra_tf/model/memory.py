"""Sizes of a model -> its weights, and what a step keeps in memory."""

from electra_tf import configs
from electra_tf.model import flops


def num_parameters(config: configs.ElectraConfig) -> int:
    """Weights of both networks and their heads, by arithmetic."""
    encoder = config.encoder
    total = _embedding_parameters(encoder) + _encoder_parameters(encoder)
    total += _head_parameters(flops.discriminator_network(config))
    if config.disentangled_embeddings:
        total += encoder.vocab_size * (encoder.embedding_size or 0)
    generator = flops.generator_network(config)
    if generator is not None and generator.encoder is not encoder:
        of_tower = _encoder_parameters(generator.encoder)
        if config.untied_generator_embeddings:
            of_tower += _embedding_parameters(generator.encoder)
        total += generator.num_towers * of_tower
    return total + _head_parameters(generator)


def _head_parameters(network: flops.Network | None) -> int:
    if network is None:
        return 0
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
    config: configs.ElectraConfig, examples: float, width: int
) -> float:
    """What the backward pass needs of the forward pass.

    A layer keeps, of each token, about: the input, queries, keys, values,
    context and both normalised sums (9 vectors with their dropout draws), the
    wide activation three times, and of each head its scores twice and the
    draws; the generator's head its logits, their exponentials and gradients in
    float32.
    """
    length = config.max_seq_length

    def of_encoder(encoder: configs.EncoderConfig) -> float:
        token = 9 * encoder.hidden_size + 3 * encoder.intermediate_size
        token *= width
        scores = encoder.num_attention_heads * length * (width + 4 + 2)
        return encoder.num_hidden_layers * length * (token + scores)

    total = 0.0
    if config.has_discriminator:
        total += of_encoder(config.encoder)
    generator = flops.generator_network(config)
    if generator is not None:
        total += generator.num_towers * of_encoder(generator.encoder)
        total += 3 * 4 * generator.num_softmaxes * config.encoder.vocab_size
    return examples * total
