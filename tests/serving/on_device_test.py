"""Tests of serving/on_device.py."""

import os
import sys
import unittest.mock

import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.serving import exportable, on_device, saved_model
from tests import helpers
from tests.checkpoints import models

TEXTS = ["wa wb", "", "wc, wd? " * 20, "\u00c9 wa"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A pre-trained discriminator and what was converted from it."""
    model_dir = tmp_path_factory.mktemp("pretrained")
    helpers.write_vocab(model_dir)
    (model_dir / "vocab.txt.json").write_text(
        '{"do_lower_case": true, "strip_accents": true}'
    )
    # Small tables are left in float32 by the converter.
    encoder = helpers.encoder_config(
        hidden_size=32, intermediate_size=64, initializer_range=0.2
    )
    helpers.write_pretrained(model_dir, encoder)
    output = tmp_path_factory.mktemp("on_device")
    paths = on_device.export(str(model_dir), str(output))
    return str(model_dir), paths


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """The folder of a tagger's files."""
    folder = tmp_path_factory.mktemp("tagger")
    electra_tf_format.write(
        models.finetuned("tagging", 3), str(folder / "model")
    )
    on_device.export(str(folder / "model"), str(folder / "on_device"))
    return folder / "on_device"


@pytest.fixture(scope="module")
def expected(exported, tmp_path_factory):
    """What the served model says of the same token ids."""
    folder = str(tmp_path_factory.mktemp("vocab"))
    model = saved_model.make_served_model(exportable.load(exported[0], folder))
    return lambda features: model.compute(
        {name: tf.constant(values) for name, values in features.items()}
    )["probabilities"].numpy()


@pytest.mark.dear
def test_files(exported):
    _, paths = exported
    names = ["model.float32.tflite", "model.int8.tflite"]
    assert [os.path.basename(path) for path in paths] == names
    folder = os.path.dirname(paths[0])
    metadata = helpers.read_json(f"{folder}/metadata.json")
    assert metadata["kind"] == "replaced_token_detection"
    assert metadata["signatures"] == ["tokens", "tokens_12"]
    sizes = [os.path.getsize(path) for path in paths]
    assert list(metadata["bytes"].values()) == sizes
    assert sizes[1] < sizes[0]


@pytest.mark.dear
@pytest.mark.parametrize(
    "number, least, most", [(0, 0.0, 1e-5), (1, 1e-5, 0.05)]
)
def test_any_batch_and_length(exported, expected, number, least, most):
    model = on_device.OnDeviceModel(exported[1][number])
    errors = []
    for texts in (TEXTS, TEXTS[:1], TEXTS[2:3]):
        features = model.pack(texts)
        # [CLS] wa wb [SEP]; a long text is cut to 12 tokens.
        assert features["input_ids"].shape[1] == min(
            12, max(4, features["input_mask"].sum(1).max())
        )
        (found,) = model(features).values()
        errors.append(np.abs(found - expected(features)).max())
    # Weights of 8 bits are not those of 32.
    assert least <= max(errors) < most


@pytest.mark.dear
def test_a_fixed_length(exported, expected):
    model = on_device.OnDeviceModel(exported[1][0])
    features = model.pack(TEXTS[2:3])
    run = model._interpreter.get_signature_runner("tokens_12")
    np.testing.assert_allclose(
        run(**features)["probabilities"], expected(features), atol=1e-5
    )


@pytest.mark.dear
def test_a_taggers_words_are_in_its_segment(tagger):
    path = str(tagger / "model.float32.tflite")
    model = on_device.OnDeviceModel(path)
    features = model.pack(["wa wb", "wc"])
    segment = helpers.read_json(tagger / "metadata.json")["segment"]
    np.testing.assert_array_equal(
        features["segment_ids"], segment * features["input_mask"]
    )
    assert features["input_ids"].tolist() == [[2, 5, 6, 3], [2, 7, 3, 0]]
    with pytest.warns(UserWarning, match="1 of 2 texts are cut"):
        model.pack(["wa", "wb " * 99])


def test_packing_is_compiled_once(tmp_path, monkeypatch):
    interpreter = unittest.mock.MagicMock()
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", interpreter)
    helpers.write_vocab(tmp_path)
    (tmp_path / "metadata.json").write_text(
        '{"kind": "encoding", "max_seq_length": 12, "do_lower_case": true, '
        '"strip_accents": true, "text_cleaning": "none"}'
    )
    model = on_device.OnDeviceModel(str(tmp_path / "model.tflite"))
    for texts in (["wa wb"], ["wa", "wc wd"], ["wb"], ["wa"] * 3):
        assert len(model.pack(texts)["input_ids"]) == len(texts)
    assert model._pack.experimental_get_tracing_count() <= 2


@pytest.mark.dear
def test_a_head_on_the_mean_of_all_tokens(exported, tmp_path):
    model = electra_tf.TextClassifier.from_checkpoint(
        exported[0], labels=["no", "yes"], pooling="mean"
    )
    folder = str(tmp_path / "model")
    model.save_checkpoint(folder)
    paths = on_device.export(folder, str(tmp_path / "on_device"))
    found = on_device.OnDeviceModel(paths[0])
    (scores,) = found(found.pack(["wa wb", "", "wd"])).values()
    np.testing.assert_allclose(
        scores, model.predict(["wa wb", "", "wd"], verbose=0), atol=1e-5
    )


@pytest.mark.dear
def test_what_litert_cannot_represent_is_said_so(tmp_path):
    module = tf.Module()
    call = tf.function(
        lambda text: {"length": tf.strings.length(text)},
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
    )
    tf.saved_model.save(module, str(tmp_path), {"tokens": call})
    with pytest.raises(ValueError, match="cannot represent.*StringLength"):
        on_device._convert(str(tmp_path), ["tokens"], is_int8=False)


def test_new_models_do_not_get_the_metadata_of_earlier_ones(
    tmp_path, monkeypatch
):
    for name in ("model.tflite", "vocab.txt", "metadata.json"):
        (tmp_path / name).write_text("earlier")
    monkeypatch.setattr(exportable, "load", lambda *args: None)
    monkeypatch.setattr(on_device, "convert", lambda _: {"model.tflite": b"!"})
    # No vocabulary is there to copy: as where the export is killed.
    with pytest.raises(ValueError, match="No such file"):
        on_device.export("model", str(tmp_path))
    assert (tmp_path / "model.tflite").read_bytes() == b"!"
    assert not (tmp_path / "metadata.json").exists()
