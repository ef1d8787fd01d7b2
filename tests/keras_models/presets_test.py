import json

import keras_hub
import numpy as np
import pytest

import electra_tf
from electra_tf import errors
from tests.keras_models import tasks
from tests.keras_models.tasks import TEXTS


@pytest.fixture(scope="module")
def preset(pretrained, tmp_path_factory):
    """What was trained, and a preset of it."""
    path = str(tmp_path_factory.mktemp("presets") / "preset")
    model = tasks.classifier(pretrained)
    model.fit(TEXTS, tasks.TARGETS, verbose=0)
    model.save_to_preset(path)
    return model, path


@pytest.mark.dear
def test_a_preset_is_a_checkpoint_for_other_models(preset):
    model, path = preset
    ids = model.preprocessor(TEXTS)
    encoder = electra_tf.Encoder.from_preset(path)
    # With the error function, which KerasHub has not.
    tasks.assert_equal_bits(encoder(ids), model.encoder()(ids))
    shorter = electra_tf.TextClassifier.from_preset(path, max_seq_length=8)
    assert (shorter.max_seq_length, shorter.labels) == (8, model.labels)
    with pytest.warns(UserWarning, match="A new head for the labels 'a', 'b'"):
        electra_tf.TextClassifier.from_preset(path, labels=["a", "b"])
    with pytest.raises(ValueError, match=f"as {path} has a head for classif"):
        electra_tf.TokenClassifier.from_preset(path)


@pytest.mark.dear
def test_kerashub_reads_the_encoder(preset):
    model, path = preset
    backbone = keras_hub.models.ElectraBackbone.from_preset(path)
    np.testing.assert_array_equal(
        backbone.token_embedding.embeddings,
        model.network.electra.variables[0],
    )


def test_what_is_damaged_is_said(pretrained, tmp_path):
    path = tmp_path / "preset"
    tasks.classifier(pretrained).save_to_preset(path)
    with pytest.raises(ValueError, match="path must be a new or empty"):
        tasks.classifier(pretrained).save_to_preset(path)
    config = json.loads((path / "task.json").read_text())
    config["config"]["head"]["num_outputs"] = 3
    config["config"]["head"]["labels"] = None
    (path / "task.json").write_text(json.dumps(config))
    with pytest.raises(errors.CheckpointError, match="as save_to_preset wri"):
        electra_tf.TextClassifier.from_preset(path)
    (path / "task.weights.h5").unlink()
    with pytest.raises(errors.CheckpointError, match="as save_to_preset wri"):
        electra_tf.TextClassifier.from_preset(path)
