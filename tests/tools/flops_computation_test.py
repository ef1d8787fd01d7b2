"""Tests of tools/flops_computation.py on sizes that can be counted by hand."""

import dataclasses
import importlib.util
import sys

import pytest

from tests import helpers

_PATH = helpers.ROOT / "tools/flops_computation.py"
_SPEC = importlib.util.spec_from_file_location(_PATH.stem, _PATH)
flops_computation = importlib.util.module_from_spec(_SPEC)
# Dataclasses look their module up by name.
sys.modules[_PATH.stem] = flops_computation
_SPEC.loader.exec_module(flops_computation)
Transformer = flops_computation.Transformer

# One token, two hidden units, one head, everything counted below.
TINY = Transformer(
    hidden_size=2,
    num_hidden_layers=3,
    max_seq_length=1,
    vocab_size=10,
    intermediate_size=4,
)


def test_attention():
    projections = 3 * (2 * 2 * 2 + 2)  # Queries, keys, values.
    scores = 2 * 2 * 1
    probabilities = 1 + 5 + 4  # Scaling, softmax, dropout.
    averages = 2 * 2 * 1
    output = 2 * 2 * 2 + 2
    dropout, residual, layer_norm = 4 * 2, 2, 5  # Not 5 * 2.
    assert TINY.attention_flops() == (
        projections
        + scores
        + probabilities
        + averages
        + output
        + dropout
        + residual
        + layer_norm
    )


def test_feed_forward():
    up = 2 * 2 * 4 + 4 + 8 * 4
    down = 2 * 4 * 2 + 2
    dropout, residual, layer_norm = 4 * 2, 2, 5 * 2
    assert TINY.feed_forward_flops() == (
        up + down + dropout + residual + layer_norm
    )


def test_embeddings():
    words, segments, positions = 2 * 2 * 10, 2 * 2 * 2, 2 * 2 * 1
    rest = 2 * 2 + (5 + 4) * 2  # Two sums, LayerNorm, dropout.
    assert TINY.embedding_flops_input() == words + segments + positions + rest
    sparse = dataclasses.replace(TINY, sparse_embed_lookup=True)
    assert sparse.embedding_flops_input() == segments + positions + rest
    narrow = dataclasses.replace(TINY, embedding_size=1)
    projection = 2 * 1 * 2 + 2
    assert narrow.embedding_flops_input() == (
        (words + segments + positions + rest) / 2 + projection
    )


def test_heads():
    transform = 2 * 2 * 2 + 2 + 8 * 2
    assert TINY.binary_classification_flops() == transform + 2 * 2
    every = dataclasses.replace(TINY, output_fraction=1.0)
    assert every.embedding_flops_output() == (
        transform + 5 * 2 + 2 * 2 * 10 + 5 * 10 + 2 * 10
    )
    assert TINY.embedding_flops_output() == (
        every.embedding_flops_output() * 0.15625
    )


def test_training_costs_two_forward_passes_a_step():
    encoder = 3 * TINY.block_flops() + TINY.embedding_flops_input()
    head = TINY.embedding_flops_output()
    assert TINY.train_flops(5, 7) == 2 * 5 * 7 * (encoder + head)
    head = TINY.binary_classification_flops()
    assert TINY.train_flops(5, 7, discriminator=True) == (
        2 * 5 * 7 * (encoder + head)
    )
    assert TINY.infer_flops() == encoder + head


def test_decoder_attends_twice():
    decoder = dataclasses.replace(TINY, is_decoder=True)
    assert decoder.block_flops() == TINY.block_flops() + TINY.attention_flops()


def test_corrected_counts_the_whole_layer_norm_and_all_heads():
    corrected = dataclasses.replace(TINY, corrected=True)
    assert corrected.attention_flops() == TINY.attention_flops() + 5
    wide = dataclasses.replace(TINY, head_size=8)
    corrected = dataclasses.replace(wide, corrected=True)
    averages = 2 * (8 - 2) * 1
    output = 2 * (8 - 2) * 2
    assert corrected.attention_flops() == (
        wide.attention_flops() + 5 + averages + output
    )


def test_generator_shares_the_embeddings_or_has_narrower_ones():
    discriminator = dataclasses.replace(TINY, hidden_size=4)
    own = Transformer(2, 1, max_seq_length=1, vocab_size=10)
    shared = dataclasses.replace(own, embedding_size=4)
    alone = discriminator.train_flops(1, 1, discriminator=True)
    for tied, generator in ((True, shared), (False, own)):
        assert flops_computation.electra_train_flops(
            discriminator, 2, 1, 1, 1, tied_embeddings=tied
        ) == alone + generator.train_flops(1, 1)


def test_prints_every_model(capsys):
    assert flops_computation.main([]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "model"
    assert [row.split()[0] for row in rows] == list(flops_computation.MODELS)
    (small,) = (row for row in rows if row.startswith("electra_small"))
    assert small.split()[1:3] == ["1.293743798272000e+18", "1.0"]


def test_corrected_is_printed(capsys):
    flops_computation.main(["--corrected"])
    corrected = capsys.readouterr().out
    flops_computation.main(["--infer_length=64"])
    assert corrected != capsys.readouterr().out


def test_wrong_length_ends_in_one_line(capsys):
    with pytest.raises(SystemExit) as error:
        flops_computation.main(["--infer-length=0"])
    assert error.value.code == 2
    line = capsys.readouterr().err.strip()
    assert "expected a whole number of at least 1" in line
    assert "\n" not in line
