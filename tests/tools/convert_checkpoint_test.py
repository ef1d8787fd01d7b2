"""Tests of tools/convert_checkpoint.py."""

import dataclasses
import functools
import os
import re
import signal
import sys
import types

import pytest
import tensorflow as tf

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


def convert(*flags) -> int:
    return convert_checkpoint.main([str(flag) for flag in flags])


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
    for source, output, name in (
        (pretrained, ours, "electra_tf"),
        (ours, back, "original"),
    ):
        code = convert(
            f"--input={source}", f"--output={output}", f"--output_format={name}"
        )
        assert code == 0, capsys.readouterr().err
    for name in os.listdir(pretrained):
        assert (back / name).read_bytes() == (pretrained / name).read_bytes()
    assert sorted(os.listdir(back)) == sorted(os.listdir(pretrained))
    assert "unused         0 tensors" in capsys.readouterr().out


def test_says_what_travels(tmp_path, pretrained, capsys, no_peers):
    output = tmp_path / "new" / "hf"
    code = convert(
        f"--input={pretrained}",
        f"--output={output}",
        "--output-format=huggingface",
    )
    out, err = capsys.readouterr()
    assert code == 0
    assert "\nconvert_checkpoint: note: special tokens that are" in f"\n{err}"
    assert "discriminator  2 layers, 8 wide (2 heads, feed-forward 16)" in out
    assert "generator      2 layers, 4 wide (1 heads, feed-forward 16)" in out
    assert "read again     82 tensors are equal bit by bit" in out
    assert "the package torch is not installed" in out
    assert (
        "used           82 tensors: discriminator_predictions (4), "
        "electra (39), generator (34), generator_predictions (5)"
    ) in out
    assert "unused         164 tensors: optimizer slots (164)" in out
    assert "missing        0 tensors" in out
    models.assert_same_tensors(
        models.pretrained(), reading.read_checkpoint(output)
    )
    assert os.listdir(tmp_path / "new") == ["hf"]


@pytest.mark.parametrize("flags", [(), ("--no-verify",)])
def test_names_every_setting_that_stays_behind(
    tmp_path, capsys, no_peers, flags
):
    checkpoint = models.finetuned(
        "regression",
        1,
        max_seq_length=9,
        vocabulary=dataclasses.replace(
            models.VOCABULARY, text_cleaning="kcelectra"
        ),
        discriminator=dataclasses.replace(
            models.ENCODER,
            initializer_range=0.5,
            attention_probs_dropout_prob=0.2,
        ),
    )
    head = dataclasses.replace(
        checkpoint.head, options={"min_value": 1.0, "scale": 4.0}
    )
    ours = tmp_path / "ours"
    electra_tf_format.write(
        dataclasses.replace(checkpoint, head=head), str(ours)
    )
    of_head = (
        "min_value=1.0, scale=4.0, kind='regression', task_name='letters', "
        "num_outputs=1"
    )
    for name, lost in (
        ("electra_tf", ""),
        ("original", ""),
        ("huggingface", ""),
        ("model_garden", f"max_seq_length=9, {of_head}"),
        (
            "kerashub",
            "max_seq_length=9, attention_probs_dropout_prob=0.2 (there 0.1), "
            "initializer_range=0.5, text_cleaning='kcelectra' "
            f"(there 'none'), {of_head}",
        ),
    ):
        code = convert(
            f"--input={ours}",
            f"--output={tmp_path / name}",
            f"--output-format={name}",
            *flags,
        )
        assert code == 0
        err = capsys.readouterr().err
        found = re.findall("note: the new format cannot hold: (.*)", err)
        assert found == [lost] * bool(lost), name


def test_names_every_variable(tmp_path, pretrained, capsys):
    code = convert(
        f"--input={pretrained}",
        f"--output={tmp_path / 'ours'}",
        "--output-format=electra_tf",
        "--encoder-only",
        "--verbose",
    )
    out = capsys.readouterr().out
    assert code == 0
    assert "\n    electra/embeddings/word_embeddings\n" in out
    assert "\n    generator_predictions/output_bias\n" in out
    read = reading.read_checkpoint(tmp_path / "ours")
    models.assert_same_tensors(models.pretrained().encoder_only(), read)


def test_the_flags_complete_a_vocabulary(tmp_path, capsys, no_peers):
    source = tmp_path / "source"
    original.write(models.finetuned(vocabulary=None), str(source))
    flags = [
        f"--input={source}",
        f"--output={tmp_path / 'hf'}",
        "--output-format=huggingface",
    ]
    assert convert(*flags, "--do-lower-case=true") == 1
    assert "has no vocabulary for --do-lower-case" in capsys.readouterr().err
    flags.append(f"--vocab-file={helpers.write_vocab(tmp_path)}")
    assert convert(*flags, "--do-lower-case=false") == 0
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
    arguments = [f"--input={source}", f"--output={output}", *flags]
    arguments += ["--output-format=electra_tf", "--do-lower-case=true"]
    assert convert(*arguments) == 0
    settings = helpers.read_json(output / "vocab.txt.json")
    assert settings["do_lower_case"] is True
    assert settings["strip_accents"] is strip_accents


def test_many_labels_are_compared_by_what_comes_out(
    tmp_path, capsys, no_peers, monkeypatch
):
    checkpoint = models.finetuned("classification", 6)
    assert checkpoint.discriminator.hidden_size < 2 * 6
    original.write(checkpoint, str(tmp_path / "ours"))
    flags = (f"--input={tmp_path}/ours", "--output_format=huggingface")
    assert convert(*flags, f"--output={tmp_path}/hf") == 0, capsys.readouterr()
    found = reading.read_checkpoint(tmp_path / "hf").head
    assert found.hidden_activation == "gelu"
    assert "the input with the output's other form" in capsys.readouterr().out
    monkeypatch.setattr(verify, "TOLERANCE", 0.0)
    assert convert(*flags, f"--output={tmp_path}/other") == 1
    error = capsys.readouterr().err
    assert "logits of electra_tf and of the output's other form of he" in error
    assert not (tmp_path / "other").exists()


def test_says_that_tokens_are_others(tmp_path, pretrained, capsys):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*helpers.VOCAB[:5], *helpers.VOCAB[:4:-1]]))
    code = convert(
        f"--input={pretrained}",
        f"--output={tmp_path / 'ours'}",
        "--output-format=electra_tf",
        f"--vocab-file={path}",
    )
    assert code == 0
    assert f"14 tokens of {path} are others there" in capsys.readouterr().err


def test_refuses_another_vocabulary(tmp_path, pretrained, capsys):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(helpers.VOCAB[:-1]))
    code = convert(
        f"--input={pretrained}",
        f"--output={tmp_path / 'ours'}",
        "--output-format=electra_tf",
        f"--vocab-file={path}",
    )
    assert code == 1
    assert capsys.readouterr().err == (
        f"convert_checkpoint: error: {path}: expected a vocabulary with 20 "
        "entries, as many as the embedding table has rows. Received: 19 "
        "entries\n"
    )


def test_a_full_disk_is_one_line(tmp_path, pretrained, capsys, monkeypatch):
    flags = (
        f"--input={pretrained}",
        f"--output={tmp_path / 'ours'}",
        "--output-format=electra_tf",
    )

    def fail(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "{{node}} it; full")

    with monkeypatch.context() as patch:
        patch.setattr(electra_tf_format, "write", fail)
        assert convert(*flags) == 1
    assert "error: Cannot write '" in (error := capsys.readouterr().err)
    assert error.endswith("ours': it; full\n")
    monkeypatch.setattr(
        "shutil.disk_usage", lambda _: types.SimpleNamespace(free=9)
    )
    assert convert(*flags) == 1
    assert "MB, 0.0 MB are free" in capsys.readouterr().err
    assert not (tmp_path / "ours").exists()


def test_refuses_an_output_that_is_there(tmp_path, pretrained, capsys):
    code = convert(
        f"--input={pretrained}",
        f"--output={pretrained}",
        "--output-format=electra_tf",
    )
    assert code == 1
    assert (
        "--output must be a new or empty folder. Received: "
        f"{pretrained}, a folder with" in capsys.readouterr().err
    )
    assert convert("--input=a", "--output=", "--output-format=original") == 1
    assert "folder. Received: nothing" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    code = convert(
        f"--input={pretrained}",
        f"--output={tmp_path / 'empty'}",
        "--output-format=electra_tf",
    )
    assert code == 0
    (tmp_path / "new").mkdir()
    (tmp_path / "link").symlink_to("new")
    code = convert(
        f"--input={pretrained}",
        f"--output={tmp_path / 'link'}",
        "--output-format=electra_tf",
    )
    assert code == 0
    assert reading.recognise(tmp_path / "new") == "electra_tf"
    assert (tmp_path / "link").is_symlink()


def test_a_mismatch_leaves_nothing(tmp_path, pretrained, capsys, monkeypatch):
    def write(checkpoint, path):
        tensors = dict(checkpoint.tensors)
        tensors["electra/embeddings_project/bias"] = (
            tensors["electra/embeddings_project/bias"] + 1
        )
        right(models.pretrained(tensors=tensors), path)

    right = electra_tf_format.write
    monkeypatch.setattr(electra_tf_format, "write", write)
    flags = [
        f"--input={pretrained}",
        f"--output={tmp_path / 'ours'}",
        "--output-format=electra_tf",
    ]
    assert convert(*flags) == 1
    assert (
        "The output does not hold what was read: 1 tensors differ, such as "
        "electra/embeddings_project/bias; no output was left"
    ) in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["original"]
    assert convert(*flags, "--no-verify") == 0


def test_another_result_of_the_peer_leaves_nothing(
    tmp_path, pretrained, capsys, monkeypatch
):
    from electra_tf.checkpoints import verify

    def forward(path, inputs):
        outputs = verify.forward(models.pretrained(), inputs)
        outputs["generator_logits"] = outputs["generator_logits"] * 1.0001
        return outputs

    monkeypatch.setattr(huggingface, "forward", forward)
    code = convert(
        f"--input={pretrained}",
        f"--output={tmp_path / 'hf'}",
        "--output-format=huggingface",
    )
    out, err = capsys.readouterr()
    assert code == 1
    assert "parity of the output with huggingface itself" in out
    assert (
        "error: generator_logits of electra_tf and of huggingface itself differ"
        in err
    )
    assert err.endswith("more than 1e-05; no output was left\n")
    assert sorted(os.listdir(tmp_path)) == ["original"]


def test_a_peer_that_crashes_leaves_nothing(
    tmp_path, pretrained, capsys, monkeypatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(sys, "executable", "false")
    output = tmp_path / "hf"
    flags = [f"--input={pretrained}", "--output-format=huggingface"]
    assert convert(*flags, f"--output={output}") == 1
    error = capsys.readouterr().err
    assert "transformers cannot run" in error and "--no-verify" in error
    assert sorted(os.listdir(tmp_path)) == ["original"]
    assert convert(*flags, f"--output={output}", "--no-verify") == 0


def test_what_ends_a_writing_leaves_nothing(
    tmp_path, pretrained, capsys, monkeypatch
):
    def write(checkpoint, path):
        (tmp_path / path / "half").write_text("half")
        end()

    def fail():
        raise OSError("No space left on device")

    flags = [
        f"--input={pretrained}",
        f"--output={tmp_path / 'ours'}",
        "--output-format=electra_tf",
    ]
    monkeypatch.setattr(electra_tf_format, "write", write)
    end = fail
    assert convert(*flags) == 1
    assert "No space left on device" in capsys.readouterr().err
    end = functools.partial(os.kill, os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit, match="143"):
        convert(*flags)
    assert sorted(os.listdir(tmp_path)) == ["original"]


def test_settings_of_the_original(tmp_path, pretrained, capsys):
    hparams = pretrained / "hparams.json"
    settings = tmp_path / "settings.json"
    hparams.rename(settings)
    flags = [f"--output={tmp_path / 'ours'}", "--output-format=electra_tf"]
    assert convert(f"--input={pretrained}", *flags) == 1
    assert "nothing says the num_attention_heads" in capsys.readouterr().err
    flags.append(f"--hparams={settings}")
    assert convert(f"--input={pretrained}", *flags) == 0
    assert "(2 heads" in capsys.readouterr().out
    assert convert(
        f"--input={tmp_path / 'ours'}",
        f"--output={tmp_path / 'more'}",
        "--output-format=original",
        f"--hparams={settings}",
    )
    err = capsys.readouterr().err
    assert "--hparams is for checkpoints of the original. Received: " in err


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--output-format=onnx", "invalid choice: 'onnx'"),
        ("--do-lower-case=yes", "expected true or false, received 'yes'"),
    ],
)
def test_mistyped_flags(flag, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        convert("--input=a", "--output=b", "--output-format=original", flag)
    assert message in capsys.readouterr().err


def test_refuses_an_input_that_is_not_there(tmp_path, capsys):
    code = convert(
        f"--input={tmp_path / 'nothing'}",
        f"--output={tmp_path / 'ours'}",
        "--output-format=electra_tf",
    )
    assert code == 1
    assert "nothing, does not exist" in capsys.readouterr().err
