"""Sizes of a model -> its weights, and what a step keeps in memory."""

from electra_tf import configs
from electra_tf.model import flops


def num_parameters(config: configs.ElectraConfig) -> int:
    """Weights of both networks and their heads, by arithmetic."""
    encoder = config.encoder
    total = _embedding_parameters(encoder) + _encoder_parameters(encoder)
    total += _discriminator_head_parameters(config)
    if config.disentangled_embeddings:
        total += encoder.vocab_size * (encoder.embedding_size or 0)
    if not config.has_generator_network:
        return total
    generator = flops.generator_config(config)
    towers = 2 if config.two_tower_generator else 1
    if generator is not encoder:
        total += towers * _encoder_parameters(generator)
        if config.untied_generator_embeddings:
            total += towers * _embedding_parameters(generator)
    if config.generator_training == "adversarial":
        total += generator.hidden_size + 1  # Expects the reward.
    return total + _masked_lm_head_parameters(
        generator, towers * generator.hidden_size
    )


def _discriminator_head_parameters(config: configs.ElectraConfig) -> int:
    hidden = config.encoder.hidden_size
    if not config.has_discriminator:
        return 0
    if config.has_binary_discriminator:
        return hidden * hidden + hidden + hidden + 1
    head = _masked_lm_head_parameters(config.encoder, hidden)
    is_copying = (
        config.discriminator_objective == "all_tokens_mlm"
        and config.copy_mechanism
    )
    return head + (hidden + 1 if is_copying else 0)


def _masked_lm_head_parameters(
    config: configs.EncoderConfig, input_size: int
) -> int:
    width = config.embedding_size or config.hidden_size
    return input_size * width + width + 2 * width + config.vocab_size


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
    if config.has_generator_network:
        towers = 2 if config.two_tower_generator else 1
        total += towers * of_encoder(flops.generator_config(config))
        scored = length if towers == 2 else config.max_predictions_per_seq
        total += 3 * 4 * scored * config.encoder.vocab_size
    return examples * total
