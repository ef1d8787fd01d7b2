import keras
import pytest

import electra_tf
from electra_tf.keras_models import freezing
from tests import helpers

SIZES = dict(
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
)


def encoder():
    found = electra_tf.Encoder(vocab_size=len(helpers.VOCAB), **SIZES)
    return found, found.electra


def pretraining_model():
    preprocessor = electra_tf.Preprocessor(helpers.VOCAB, max_seq_length=12)
    found = electra_tf.PretrainingModel(preprocessor, **SIZES)
    return found, found.network.electra


@pytest.mark.parametrize("make", [encoder, pretraining_model])
def test_what_is_frozen_is_so_in_a_file(make, tmp_path):
    model, network = make()
    assert "frozen" not in model.get_config()
    first, *_ = network._flatten_layers(include_self=False)
    first.trainable = False
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    learns = [v.path for v in model.trainable_variables]
    assert [v.path for v in again.trainable_variables] == learns
    assert len(learns) < len(make()[0].trainable_variables)


def test_as_another_one():
    (frozen, network), (other, theirs) = encoder(), encoder()
    theirs.trainable = False
    freezing.freeze_like(network, theirs)
    assert frozen.trainable_variables == []
    theirs.trainable = True
    freezing.freeze_like(network, theirs)
    assert len(frozen.trainable_variables) == len(other.trainable_variables)
