"""Tests of electra_tf/inference/scorer.py and of the rows below it."""

import math
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoints import reading
from electra_tf.checkpoints.formats import original
from electra_tf.inference import scorer as scorer_lib
from electra_tf.inference.scored_text import MASKED, ONE_PASS
from electra_tf.model import masking
from electra_tf.training import saving
from tests import helpers

MASK_PROB = 0.25
NUM_WORDS = helpers.LENGTH - 2
ELECTRIC = {"electra_objective": False, "electric_objective": True}
# A toy language: words of the first five and of the second five in turn.
SPEECH = [helpers.VOCAB[5:10], helpers.VOCAB[10:15]]
NUM_STEPS, BATCH_SIZE = 200, 64


def sentence(rng: random.Random) -> list[str]:
    return [rng.choice(SPEECH[i % 2]) for i in range(NUM_WORDS)]


def inputs(rows) -> dict[str, tf.Tensor]:
    """[CLS] words [SEP], for rows of one length."""
    ids = tf.constant(
        [
            [helpers.CLS, *map(helpers.VOCAB.index, row), helpers.SEP]
            for row in rows
        ]
    )
    mask = tf.ones_like(ids)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}


def draw_noise(seed, num_rows: int, config) -> masking.Noise:
    num_slots = config.max_predictions_per_seq
    sizes = (config.num_position_draws, num_slots, num_slots)
    return masking.Noise(
        *(
            tf.random.stateless_uniform([num_rows, size], [seed, stream])
            for stream, size in enumerate(sizes)
        )
    )


@pytest.fixture(scope="module")
def electric(tmp_path_factory):
    """A model directory of an Electric that learned the language."""
    model_dir = str(tmp_path_factory.mktemp("electric"))
    helpers.write_vocab(model_dir)
    sizes = {"hidden_size": 16, "embedding_size": 16, "num_hidden_layers": 1}
    model = helpers.write_pretrained(
        model_dir,
        helpers.encoder_config(
            **sizes, num_attention_heads=1, initializer_range=0.3
        ),
        **ELECTRIC,
        distinct_positions=True,
        mask_prob=MASK_PROB,
        gen_weight=0.0,
    )
    # The noise: any word of the language, whatever stands around it. With a
    # generator that learns as fast as this language is learned, nothing would
    # be left to tell apart.
    head = model.cloze_predictions
    head.layer_norm.gamma.assign(tf.zeros_like(head.layer_norm.gamma))
    is_word = np.isin(helpers.VOCAB, SPEECH)
    head.output_bias.assign(np.where(is_word, 0.0, -30.0))
    rng = random.Random(0)
    corpus = inputs([sentence(rng) for _ in range(256)])
    optimizer = keras.optimizers.Adam(0.01)
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step(seed):
        chosen = tf.random.stateless_uniform(
            [BATCH_SIZE], [seed, 9], 0, 256, tf.int32
        )
        features = {name: tf.gather(x, chosen) for name, x in corpus.items()}
        noise = draw_noise(seed, BATCH_SIZE, model.config)
        with tf.GradientTape() as tape:
            loss = model(features, noise=noise)["total_loss"]
        optimizer.apply(tape.gradient(loss, variables), variables)

    for number in range(NUM_STEPS):
        step(tf.constant(number))
    tf.train.CheckpointManager(
        saving.checkpointed_variables(model), model_dir, 1
    ).save()
    return model_dir, model


@pytest.fixture(scope="module")
def one_pass(electric):
    return scorer_lib.Scorer(electric[0])


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory):
    """A model directory of a masked language model, and the model in it."""
    model_dir = str(tmp_path_factory.mktemp("masked_lm"))
    helpers.write_vocab(model_dir)
    return model_dir, helpers.write_pretrained(
        model_dir, electra_objective=False
    )


@pytest.fixture(scope="module")
def masked(masked_lm):
    return scorer_lib.Scorer(masked_lm[0], batch_size=3)


def token_scores(scored) -> list[float]:
    return [token.score for token in scored.tokens]


def energies_of(model, features):
    """What the pre-training model's own networks say, without [CLS], [SEP]."""
    sequence = model.electra(**features)["sequence_output"]
    return model.discriminator_predictions(sequence)[:, 1:-1]


def test_one_pass_gives_the_term_that_noise_was_told_from_data_by(
    electric, one_pass
):
    model = electric[1]
    assert one_pass.method == ONE_PASS
    rng = random.Random(1)
    outputs = model(
        inputs([sentence(rng) for _ in range(3)]),
        noise=draw_noise(1, 3, model.config),
    )
    corrupted = outputs["fake_data"].inputs
    words = corrupted.input_ids.numpy()[:, 1:-1]
    scored = one_pass.score(
        [" ".join(helpers.VOCAB[i] for i in row) for row in words]
    )
    scores = np.array([token_scores(text) for text in scored])
    names = ("input_ids", "input_mask", "segment_ids")
    energies = energies_of(model, {n: getattr(corrupted, n) for n in names})
    np.testing.assert_allclose(scores, -energies, atol=1e-5)
    np.testing.assert_allclose(
        [text.score for text in scored], -np.sum(energies, axis=-1), atol=1e-5
    )
    # The logit that was trained: log of noise to data, both as probabilities.
    cloze_logits = outputs["generator_outputs"]["cloze_logits"]
    log_q = np.take_along_axis(
        tf.nn.log_softmax(cloze_logits).numpy()[:, 1:-1],
        words[..., np.newaxis],
        axis=-1,
    )[..., 0]
    log_noise = math.log(MASK_PROB) + log_q
    log_data = math.log(1 - MASK_PROB) + scores
    np.testing.assert_allclose(
        outputs["disc_output"].logits[:, 1:-1], log_noise - log_data, atol=1e-5
    )


def test_electric_prefers_what_is_of_the_language(one_pass):
    rng = random.Random(2)
    good = [sentence(rng) for _ in range(20)]
    shuffled = [rng.sample(words, len(words)) for words in good]
    assert all(a != b for a, b in zip(good, shuffled, strict=True))
    scored = one_pass.score([" ".join(words) for words in good + shuffled])
    of_good = [text.score for text in scored[:20]]
    of_shuffled = [text.score for text in scored[20:]]
    assert min(of_good) > max(of_shuffled) + 1
    # Each word is one of five. Three of ten are noise where mask_prob says a
    # quarter, and the model makes up for the difference.
    expected = math.log(1 / 5) - (math.log(3 / 7) - math.log(1 / 3))
    assert np.mean(of_good) / NUM_WORDS == pytest.approx(expected, abs=0.25)


def hand_written_scores(encoder, head, words) -> list[float]:
    """Masks the tokens of [CLS] words [SEP] one after another."""
    scores = []
    for position, word in enumerate(words, start=1):
        ids = np.array([[helpers.CLS, *words, helpers.SEP]])
        ids[0, position] = helpers.MASK
        sequence = encoder(ids, np.ones_like(ids), np.zeros_like(ids))
        logits = head(sequence["sequence_output"])[0, position].numpy()
        logits = logits.astype(np.float64)
        scores.append(logits[word] - math.log(np.exp(logits).sum()))
    return scores


def test_masked_scores_are_those_of_a_hand_written_loop(masked_lm, masked):
    model = masked_lm[1]
    networks = (model.electra, model.generator_predictions)
    assert masked.method == MASKED
    rows = [[5, 6, 7, 8], [9, 5, 5, 19, 12, 11, 6]]
    scored = masked.score(
        [" ".join(helpers.VOCAB[i] for i in row) for row in rows]
    )
    for text, row in zip(scored, rows, strict=True):
        expected = hand_written_scores(*networks, row)
        np.testing.assert_allclose(token_scores(text), expected, atol=1e-5)
        assert text.score == pytest.approx(sum(expected), abs=1e-5)
        perplexity = math.exp(-sum(expected) / len(row))
        assert text.perplexity == pytest.approx(perplexity, rel=1e-5)


@pytest.mark.dear
@pytest.mark.parametrize("has_own_tables", [False, True])
def test_the_generator_of_an_electra_scores(tmp_path, has_own_tables):
    helpers.write_vocab(tmp_path)
    model = helpers.write_pretrained(
        tmp_path, untied_generator_embeddings=has_own_tables
    )
    scorer = scorer_lib.Scorer(str(tmp_path))
    assert scorer.method == MASKED
    (scored,) = scorer.score(["wa wc wf"])
    networks = (model.generator, model.generator_predictions)
    expected = hand_written_scores(*networks, [5, 7, 10])
    np.testing.assert_allclose(token_scores(scored), expected, atol=1e-5)


@pytest.mark.dear
@pytest.mark.parametrize("has_own_tables", [False, True])
def test_electric_scores_whatever_its_towers_share(tmp_path, has_own_tables):
    helpers.write_vocab(tmp_path)
    model = helpers.write_pretrained(
        tmp_path, **ELECTRIC, untied_generator_embeddings=has_own_tables
    )
    features = inputs([["wa", "wc", "wf"]])
    energies = energies_of(model, features)[0]
    ltr = "generator_ltr/embeddings/word_embeddings"
    assert (ltr in {v.path for v in model.variables}) == has_own_tables
    # The same through a checkpoint of the original.
    original.write(
        reading.read_checkpoint(tmp_path), str(tmp_path / "original")
    )
    for path in (tmp_path, tmp_path / "original"):
        scorer = scorer_lib.Scorer(str(path))
        assert scorer.method == ONE_PASS
        (scored,) = scorer.score(["wa wc wf"])
        np.testing.assert_allclose(token_scores(scored), -energies, atol=1e-5)


@pytest.mark.parametrize("fixture", ["one_pass", "masked"])
def test_a_text_has_the_same_score_in_any_company(fixture, request):
    scorer = request.getfixturevalue(fixture)
    texts = ["wa wf", "wb", "", "wa wf wc wh we wj wa wg wb wi", "wd wd wd"]
    together = [text.score for text in scorer.score(texts)]
    alone = [scorer.score([text])[0].score for text in texts]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert together[2] == 0
    assert len(set(together)) == len(texts)


def test_places_and_lengths(one_pass):
    plain, odd, empty = (
        [(t.token, t.begin, t.end) for t in text.tokens]
        for text in one_pass.score(
            ["Wb  wf", "wb\x00 \ufffdwf \U0001f600", " \t\x00"],
            with_offsets=True,
        )
    )
    assert plain == [("wb", 0, 2), ("wf", 4, 6)]
    # NUL and U+FFFD, which stands for what is not UTF-8, are no characters
    # for the tokenizer.
    assert odd == [("wb", 0, 2), ("wf", 5, 7), ("[UNK]", 8, 9)]
    assert empty == []
    nothing, word = one_pass.score([" ", "wb"])
    assert nothing.score == 0
    assert nothing.per_token is None and nothing.perplexity is None
    assert word.tokens[0].begin is None


def test_long_texts_are_refused_or_cut(one_pass):
    assert one_pass.most_tokens == NUM_WORDS
    fits = " ".join(["wa wf"] * 5)
    long = fits + " wa" * 400_000  # 1.2 MB.
    line = "^b.txt, line 2: expected at most 10 tokens.*400010"
    with pytest.raises(ValueError, match=line):
        one_pass.score([fits, long], places=["b.txt, line 1", "b.txt, line 2"])
    whole, cut = one_pass.score([fits, long], truncate=True)
    assert (whole.num_left_out, cut.num_left_out) == (0, 400_000)
    assert cut.score == pytest.approx(whole.score, abs=1e-5)


def test_weights_that_are_not_finite_are_named(one_pass, monkeypatch):
    monkeypatch.setattr(
        one_pass,
        "_log_probs",
        lambda ids, _: tf.fill(ids.shape, math.nan),
    )
    with pytest.raises(ValueError, match="^text 1: expected finite"):
        one_pass.score(["wa"])


def test_models_and_methods_that_do_not_fit_are_refused(
    electric, masked_lm, tmp_path
):
    helpers.write_vocab(tmp_path)
    helpers.write_pretrained(tmp_path, uniform_generator=True)
    for path, method, message in (
        (electric[0], "masked", "a masked language model.*Received"),
        (masked_lm[0], "one_pass", "Expected Electric"),
        (str(tmp_path), "auto", "Expected Electric or a masked language .*"),
        (str(tmp_path), "one_pass", "Expected Electric"),
    ):
        with pytest.raises(ValueError, match=message):
            scorer_lib.Scorer(path, method=method)
