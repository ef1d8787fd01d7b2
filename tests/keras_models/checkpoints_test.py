import pathlib

import keras
import pytest

import electra_tf
from electra_tf import errors
from electra_tf.keras_models import checkpoints
from tests.checkpoints import models


def test_messages_name_the_path(tmp_path):
    nameless = str(tmp_path / "nameless")
    checkpoints.write(models.pretrained(vocabulary=None), nameless, "original")
    generator = str(tmp_path / "generator")
    checkpoints.write(models.pretrained(discriminator=None), generator)
    for path, make in (
        (nameless, electra_tf.Preprocessor.from_checkpoint),
        (nameless, electra_tf.TextRegressor.from_checkpoint),
        (nameless, electra_tf.PretrainingModel.from_checkpoint),
        (generator, electra_tf.Encoder.from_checkpoint),
        (generator, electra_tf.TextRegressor.from_checkpoint),
        (generator, electra_tf.PretrainingModel.from_checkpoint),
    ):
        with pytest.raises(errors.CheckpointError, match=path):
            make(path)


def test_what_a_format_has_no_place_for_is_told(tmp_path, recwarn):
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=["a", "b"]
    )
    for name in ("electra_tf", "original", "huggingface"):
        model.save_checkpoint(tmp_path / name, format=name)
    told = [str(warning.message) for warning in recwarn]
    assert not [line for line in told if "the format " in line]
    model.save_checkpoint(tmp_path / "kerashub", format="kerashub")
    told = [str(warning.message) for warning in recwarn]
    assert [line for line in told if "the format " in line] == [
        f"{tmp_path}/kerashub: the format has no place for "
        "task_specific/classification (2)",
        f"{tmp_path}/kerashub: the format computes gelu_new, the model gelu: "
        "outputs differ from about the fourth digit on",
    ]


def test_a_link_to_an_empty_folder_is_written_through(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    checkpoints.write(models.pretrained(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert electra_tf.Encoder.from_checkpoint(tmp_path / "disk")


def test_a_keras_file_is_the_old_one_or_whole(tmp_path, monkeypatch):
    model = electra_tf.Encoder.from_checkpoint(models.pretrained())
    path = tmp_path / "encoder.keras"
    model.save(path)
    old = path.read_bytes()

    def fail(self, filepath, *_, **__):
        pathlib.Path(filepath).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keras.Model, "save", fail)
    with pytest.raises(ValueError, match=f"Cannot write '{path}': No space"):
        model.save(path)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["encoder.keras"]
    monkeypatch.undo()
    link = tmp_path / "latest.keras"
    link.symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    assert keras.saving.load_model(path)
