"""Tests of checkpoints/hub.py, without a connection."""

import pytest

from electra_tf import errors
from electra_tf.checkpoints import converting, reading
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


@pytest.mark.parametrize("revision", ["", "@v1"])
def test_a_handle_is_read_from_the_cache(hub_cache, revision):
    expected = _write_to_cache(hub_cache, revision[1:] or "main")
    found = reading.read_checkpoint(f"hf://owner/name{revision}")
    models.assert_same_tensors(found, expected)
    assert found.vocabulary == expected.vocabulary


def test_a_miss_is_one_line(hub_cache):
    with pytest.raises(errors.CheckpointError) as error:
        reading.read_checkpoint("hf://owner/absent")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(
        "Expected hf://owner/absent on the Hugging Face Hub or in its cache. "
        "Received: LocalEntryNotFoundError: Cannot find"
    )


@pytest.mark.parametrize("handle", ["hf://name", "hf://a/b/c", "hf://a/ b"])
def test_a_handle_has_an_owner_and_a_name(handle):
    with pytest.raises(errors.CheckpointError, match="like 'hf://owner/name'"):
        reading.read_checkpoint(handle)


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
    found = reading.read_checkpoint("hf://owner/name")
    models.assert_same_tensors(found, expected)


def test_a_conversion_reads_a_handle(hub_cache, tmp_path, capsys):
    expected = _write_to_cache(hub_cache)
    output = str(tmp_path / "converted")
    converting.convert(
        converting.Conversion(
            *("hf://owner/name", output, "original"), verify=False
        )
    )
    models.assert_same_tensors(reading.read_checkpoint(output), expected)
    out = capsys.readouterr().out
    assert out.startswith("hf://owner/name: a Hugging Face directory\n")
