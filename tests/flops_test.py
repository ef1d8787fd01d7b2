"""Tests of flops.py: the count of matrix products."""

from electra_tf import configs, flops

# One layer everywhere: L = 4 tokens, N = 1 slot, D = 8, E = 8, V = 10.
ENCODER = configs.EncoderConfig(10, 8, 1, 2, 16)


def config(**changes):
    values = {"max_seq_length": 4, "mask_prob": 0.25}
    return configs.ElectraConfig(ENCODER, **(values | changes))


# 4 projections, scores and averages over 4 tokens, up and down.
LAYER = 4 * (4 * 2 * 8 * 8 + 2 * 2 * 8 * 4 + 2 * 2 * 8 * 16)
MASKED_LM_HEAD = 2 * 8 * 8 + 2 * 8 * 10
DISCRIMINATOR_HEAD = 4 * (2 * 8 * 8 + 2 * 8)


def test_masked_language_model():
    masked_lm = config(electra_objective=False)
    assert flops.of_forward_pass(masked_lm) == LAYER + MASKED_LM_HEAD


def test_uniform_generator_costs_nothing():
    uniform = config(uniform_generator=True)
    assert flops.of_forward_pass(uniform) == LAYER + DISCRIMINATOR_HEAD


def test_shared_networks_are_run_twice():
    tied = config(untied_generator=False)
    assert flops.of_forward_pass(tied) == (
        2 * LAYER + MASKED_LM_HEAD + DISCRIMINATOR_HEAD
    )


def test_a_narrow_generator_is_projected():
    narrow = config(generator_hidden_size=0.5)
    layer = 4 * (4 * 2 * 4 * 4 + 2 * 2 * 4 * 4 + 2 * 2 * 4 * 16)
    projection = 4 * 2 * 8 * 4
    head = 2 * 4 * 8 + 2 * 8 * 10
    assert flops.of_forward_pass(narrow) == (
        LAYER + DISCRIMINATOR_HEAD + layer + projection + head
    )


def test_electric_scores_every_token_from_two_towers():
    electric = config(
        electra_objective=False,
        electric_objective=True,
        generator_hidden_size=1.0,
    )
    head = 4 * (2 * 16 * 8 + 2 * 8 * 10)
    # The generator's feed-forward layer is 4 times as wide as the rest.
    tower = LAYER + 4 * 2 * 2 * 8 * 16
    assert flops.of_forward_pass(electric) == (
        LAYER + DISCRIMINATOR_HEAD + 2 * tower + head
    )


def test_training_is_three_forward_passes():
    model = config()
    assert flops.of_training_example(model) == 3 * flops.of_forward_pass(model)
