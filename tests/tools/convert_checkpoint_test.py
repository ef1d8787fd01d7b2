"""Tests of tools/convert_checkpoint.py."""

import dataclasses
import functools
import json
import os
import re
import signal
import sys

import numpy as np
import pytest

from electra_tf.checkpoints import reading, verify
from electra_tf.checkpoints.formats import (
    electra_tf_format,
    huggingface,
    original,
)
from tests import helpers
from tests.checkpoints import models
from tools import convert_checkpoint

pytestmark = pytest.mark.usefixtures("quick_collections")


def convert(source, output, output_format="electra_tf", *flags) -> int:
    paths = [f"--input={source}", f"--output={output}"]
    return convert_checkpoint.main(
        [*paths, f"--output-format={output_format}", *flags]
    )


@pytest.fixture
def no_peers(monkeypatch):
    """As on a machine without transformers, whether it is there or not."""
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def pretrained(tmp_path):
    original.write(models.pretrained(slots=True), str(tmp_path / "original"))
    return tmp_path / "original"


def test_there_and_back_is_the_same_file(tmp_path, pretrained, capsys):
    ours, back = tmp_path / "ours", tmp_path / "back"
    assert convert(pretrained, ours) == 0, capsys.readouterr().err
    assert convert(ours, back, "original") == 0, capsys.readouterr().err
    for name in os.listdir(pretrained):
        assert (back / name).read_bytes() == (pretrained / name).read_bytes()
    assert sorted(os.listdir(back)) == sorted(os.listdir(pretrained))
    assert "unused         0 tensors" in capsys.readouterr().out


def test_says_what_travels(tmp_path, pretrained, capsys, no_peers):
    output = tmp_path / "new" / "hf"
    assert convert(pretrained, output, "huggingface") == 0
    out, err = capsys.readouterr()
    assert "\nelectra-tf convert: note: special tokens that are" in f"\n{err}"
    for line in (
        "discriminator  2 layers, 8 wide (2 heads, feed-forward 16)",
        "generator      2 layers, 4 wide (1 heads, feed-forward 16)",
        "read again     82 tensors are equal bit by bit",
        "the package torch is not installed",
        "used           82 tensors: discriminator_predictions (4), "
        "electra (39), generator (34), generator_predictions (5)",
        "unused         164 tensors: optimizer slots (164)",
    ):
        assert line in out
    models.assert_same_tensors(
        models.pretrained(), reading.read_checkpoint(output)
    )
    assert os.listdir(tmp_path / "new") == ["hf"]


def test_names_every_setting_that_stays_behind(tmp_path, capsys, no_peers):
    vocabulary = dataclasses.replace(
        models.VOCABULARY, text_cleaning="kcelectra"
    )
    encoder = dataclasses.replace(
        models.ENCODER,
        initializer_range=0.5,
        attention_probs_dropout_prob=0.2,
    )
    checkpoint = models.finetuned(
        *("regression", 1),
        max_seq_length=9,
        vocabulary=vocabulary,
        discriminator=encoder,
    )
    options = {"min_value": 1.0, "scale": 4.0}
    head = dataclasses.replace(checkpoint.head, options=options)
    checkpoint = dataclasses.replace(checkpoint, head=head)
    electra_tf_format.write(checkpoint, str(tmp_path / "ours"))
    of_head = (
        "min_value=1.0, scale=4.0, kind='regression', task_name='letters', "
        "num_outputs=1"
    )
    of_kerashub = (
        "max_seq_length=9, attention_probs_dropout_prob=0.2, "
        "initializer_range=0.5, text_cleaning='kcelectra', "
    )
    for name, lost in (
        ("electra_tf", ""),
        ("original", ""),
        ("huggingface", ""),
        ("model_garden", f"max_seq_length=9, {of_head}"),
        ("kerashub", f"{of_kerashub}{of_head}"),
    ):
        args = (tmp_path / "ours", tmp_path / name, name, "--no-verify")
        assert convert(*args) == 0
        err = capsys.readouterr().err
        found = re.findall("note: the new format cannot hold: (.*)", err)
        assert found == [lost] * bool(lost), name


def test_the_encoder_alone(tmp_path, pretrained):
    flags = ("electra_tf", "--encoder-only")
    assert convert(pretrained, tmp_path / "ours", *flags) == 0
    read = reading.read_checkpoint(tmp_path / "ours")
    models.assert_same_tensors(models.pretrained().encoder_only(), read)


def test_the_flags_complete_a_vocabulary(tmp_path, capsys, no_peers):
    original.write(models.finetuned(vocabulary=None), str(tmp_path / "source"))
    args = [tmp_path / "source", tmp_path / "hf", "huggingface"]
    assert convert(*args, "--do-lower-case=true") == 1
    assert "has no vocabulary for --do-lower-case" in capsys.readouterr().err
    args.append(f"--vocab-file={helpers.write_vocab(tmp_path)}")
    assert convert(*args, "--do-lower-case=false") == 0
    settings = helpers.read_json(tmp_path / "hf" / "tokenizer_config.json")
    assert settings["do_lower_case"] is False
    assert settings["strip_accents"] is False


@pytest.mark.parametrize(
    ("flags", "strip_accents"), [([], True), (["--strip-accents=false"], False)]
)
def test_accents_follow_another_case(tmp_path, no_peers, flags, strip_accents):
    cased = dataclasses.replace(
        models.VOCABULARY, do_lower_case=False, strip_accents=False
    )
    source, output = tmp_path / "cased", tmp_path / "uncased"
    huggingface.write(models.finetuned(vocabulary=cased), str(source))
    flags = ["--do-lower-case=true", *flags]
    assert convert(source, output, "electra_tf", *flags) == 0
    settings = helpers.read_json(output / "vocab.txt.json")
    assert settings["do_lower_case"] is True
    assert settings["strip_accents"] is strip_accents


def test_refuses_an_output_that_is_there(tmp_path, pretrained, capsys):
    assert convert(pretrained, pretrained) == 1
    error = capsys.readouterr().err
    assert "--output must be a new or empty folder. Received: " in error
    assert str(pretrained) in error
    assert convert("a", "", "original") == 1
    assert "folder. Received: ''" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert convert(pretrained, tmp_path / "empty") == 0
    (tmp_path / "new").mkdir()
    (tmp_path / "link").symlink_to("new")
    assert convert(pretrained, tmp_path / "link") == 0
    assert reading.recognise(tmp_path / "new") == "electra_tf"
    assert (tmp_path / "link").is_symlink()


def test_a_mismatch_leaves_nothing(tmp_path, pretrained, capsys, monkeypatch):
    right = electra_tf_format.write
    name = "electra/embeddings_project/bias"

    def write(checkpoint, path):
        tensors = dict(checkpoint.tensors)
        tensors[name] = np.nextafter(tensors[name], np.float32(9))
        right(models.pretrained(tensors=tensors), path)

    monkeypatch.setattr(electra_tf_format, "write", write)
    assert convert(pretrained, tmp_path / "ours") == 1
    line = f"1 tensors differ, such as {name}; no output was left"
    assert line in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["original"]
    flags = ("electra_tf", "--no-verify")
    assert convert(pretrained, tmp_path / "ours", *flags) == 0


def test_a_head_that_is_not_had_here_is_left_out_if_told_so(
    tmp_path, capsys, no_peers
):
    source = tmp_path / "source"
    huggingface.write(models.finetuned("tagging", 3), str(source))
    config = helpers.read_json(source / "config.json")
    config["architectures"] = ["ElectraForMultipleChoice"]
    (source / "config.json").write_text(json.dumps(config))
    assert convert(source, tmp_path / "ours") == 1
    error = capsys.readouterr().err
    assert "ElectraForMultipleChoice; without its head it is an enc" in error
    flags = ("electra_tf", "--encoder-only")
    assert convert(source, tmp_path / "ours", *flags) == 0
    assert reading.read_checkpoint(tmp_path / "ours").head is None


def test_another_result_of_the_peer_leaves_nothing(
    tmp_path, pretrained, capsys, monkeypatch
):
    def forward(path, inputs):
        outputs = verify.forward(models.pretrained(), inputs)
        outputs["generator_logits"] = outputs["generator_logits"] * 1.0001
        return outputs

    monkeypatch.setattr(huggingface, "forward", forward)
    assert convert(pretrained, tmp_path / "hf", "huggingface") == 1
    out, err = capsys.readouterr()
    assert "parity of the output with huggingface itself" in out
    assert "error: generator_logits of electra_tf and of huggingface it" in err
    assert err.endswith("more than 1e-05; no output was left\n")
    assert sorted(os.listdir(tmp_path)) == ["original"]


def test_a_peer_that_crashes_leaves_nothing(
    tmp_path, pretrained, capsys, monkeypatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(sys, "executable", "false")
    args = (pretrained, tmp_path / "hf", "huggingface")
    assert convert(*args) == 1
    error = capsys.readouterr().err
    assert "transformers cannot run" in error and "--no-verify" in error
    assert "download.pytorch.org/whl/cpu" in error
    assert sorted(os.listdir(tmp_path)) == ["original"]
    assert convert(*args, "--no-verify") == 0


def test_what_ends_a_writing_leaves_nothing(
    tmp_path, pretrained, capsys, monkeypatch
):
    def write(checkpoint, path):
        (tmp_path / path / "half").write_text("half")
        end()

    def fail():
        raise OSError("No space left on device")

    monkeypatch.setattr(electra_tf_format, "write", write)
    end = fail
    assert convert(pretrained, tmp_path / "ours") == 1
    assert "No space left on device" in capsys.readouterr().err
    end = functools.partial(os.kill, os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit, match="143"):
        convert(pretrained, tmp_path / "ours")
    assert sorted(os.listdir(tmp_path)) == ["original"]


def test_settings_of_the_original(tmp_path, pretrained, capsys):
    settings = tmp_path / "settings.json"
    (pretrained / "hparams.json").rename(settings)
    ours, flag = tmp_path / "ours", f"--hparams={settings}"
    assert convert(pretrained, ours) == 1
    assert "nothing says the num_attention_heads" in capsys.readouterr().err
    assert convert(pretrained, ours, "electra_tf", flag) == 0
    assert "(2 heads" in capsys.readouterr().out
    assert convert(ours, tmp_path / "more", "original", flag)
    err = capsys.readouterr().err
    assert "--hparams is for checkpoints of the original. Received: " in err
