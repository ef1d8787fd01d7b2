import pytest

import electra_tf
from electra_tf import errors
from electra_tf.checkpoints import reading
from electra_tf.keras_models import checkpoints
from tests.checkpoints import models


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """Hugging Face's cache, empty and without a way to fill it."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def _write_to_cache(cache, revision="main", commit="0" * 40):
    """What downloading owner/name leaves."""
    repository = cache / "models--owner--name"
    folder = repository / "snapshots" / commit
    folder.mkdir(parents=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / revision).write_text(commit)
    checkpoint = models.pretrained().encoder_only()
    reading.format_module("huggingface").write(checkpoint, str(folder))
    return checkpoint


def test_a_handle_is_read_from_the_cache(hub_cache):
    expected = _write_to_cache(hub_cache)
    found = checkpoints.read("hf://owner/name")
    models.assert_same_tensors(found, expected)
    assert found.vocabulary == expected.vocabulary


def test_a_handle_may_name_a_revision(hub_cache):
    _write_to_cache(hub_cache, revision="v1")
    assert checkpoints.read("hf://owner/name@v1").discriminator
    with pytest.raises(errors.CheckpointError, match="hf://owner/name on the"):
        checkpoints.read("hf://owner/name")


def test_a_miss_is_one_line(hub_cache):
    with pytest.raises(errors.CheckpointError) as error:
        checkpoints.read("hf://owner/absent")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(
        "Expected hf://owner/absent on the Hugging Face Hub or in its cache. "
        "Received: LocalEntryNotFoundError: Cannot find"
    )


@pytest.mark.parametrize("handle", ["hf://name", "hf://a/b/c", "hf://a/ b"])
def test_a_handle_has_an_owner_and_a_name(handle):
    with pytest.raises(errors.CheckpointError, match="like 'hf://owner/name'"):
        checkpoints.read(handle)


def test_a_checkpoint_that_was_read_is_taken_as_it_is():
    checkpoint = models.pretrained()
    assert checkpoints.read(checkpoint) is checkpoint


def test_a_part_that_others_have_loaded_will_do(hub_cache, monkeypatch):
    import huggingface_hub
    from huggingface_hub import errors as hub_errors

    expected = _write_to_cache(hub_cache)
    folder = huggingface_hub.snapshot_download("owner/name")

    def snapshot_download(*args, **kwargs):
        raise hub_errors.IncompleteSnapshotError(
            "README.md is not there", folder
        )

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    found = checkpoints.read("hf://owner/name")
    models.assert_same_tensors(found, expected)


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
    model.save_to_preset(tmp_path / "preset")  # Its head is in task.json.
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
