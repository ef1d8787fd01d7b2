"""Against transformers itself: `make test-interop` runs these.

They need torch and transformers, which the ordinary tests do without; their
names keep them out of `make test`.
"""

import dataclasses
import json

import numpy as np
import pytest
import torch
import transformers

from electra_tf.checkpoints import reading, sizes, verify
from electra_tf.checkpoints.formats import (
    electra_tf_format,
    huggingface,
    huggingface_files,
    original,
    transformers_forward,
)
from electra_tf.errors import CheckpointError
from electra_tf.text import tokenization
from electra_tf.text.vocabulary import Vocabulary
from tests import helpers, notices
from tests.checkpoints import models
from tools import convert_checkpoint

CLASSES = [
    ("ElectraModel", {}),
    ("ElectraForPreTraining", {}),
    ("ElectraForMaskedLM", {}),
    ("ElectraForSequenceClassification", {"num_labels": 3}),
    ("ElectraForSequenceClassification", {"num_labels": 1}),
    ("ElectraForTokenClassification", {"num_labels": 5}),
    ("ElectraForQuestionAnswering", {}),
    ("ElectraForPreTraining", {"hidden_act": "gelu_new"}),
    ("ElectraForMaskedLM", {"hidden_act": "gelu_new"}),
    ("ElectraForSequenceClassification", {"hidden_act": "gelu_new"}),
]


def convert(source, output, output_format, *flags):
    paths = [f"--input={source}", f"--output={output}"]
    return convert_checkpoint.main(
        [*paths, f"--output-format={output_format}", *flags]
    )


@pytest.fixture(autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def make_model(name, has_projection, seed=0, **settings):
    """A small model of transformers with large random weights."""
    torch.manual_seed(seed)
    config = transformers.ElectraConfig(
        vocab_size=50,
        embedding_size=24 if has_projection else 32,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=40,
        type_vocab_size=2,
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.3,
        initializer_range=0.05,
        **settings,
    )
    model = getattr(transformers, name)(config)
    for parameter_name, parameter in model.named_parameters():
        mean = 1.0 if parameter_name.endswith("LayerNorm.weight") else 0.0
        torch.nn.init.normal_(parameter, mean, 0.3)
    return model


def assert_parity(checkpoint, path) -> set[str]:
    """Compares ours with transformers; returns the outputs compared."""
    config = checkpoint.discriminator or checkpoint.generator
    inputs = verify.random_inputs(config)
    # In this process, which has both, as the wheel for the CPU allows.
    parts = huggingface_files.parts(str(path))
    expected = transformers_forward.outputs(parts, inputs)
    found = verify.compare(
        verify.forward(checkpoint, inputs), expected, inputs["input_mask"]
    )
    for difference in found:
        share = difference.largest / difference.magnitude
        print(f"{path.name}: {difference.output} {share:.1e}")
        assert difference.fits, difference
    return {difference.output for difference in found}


@pytest.mark.parametrize("has_projection", [True, False])
@pytest.mark.parametrize(("name", "settings"), CLASSES)
def test_there_and_back(tmp_path, name, settings, has_projection):
    theirs = make_model(name, has_projection, **settings)
    theirs.save_pretrained(tmp_path / "theirs")
    read = reading.read_checkpoint(tmp_path / "theirs")
    assert (read.unused, read.assumed) == ((), ())
    outputs = assert_parity(read, tmp_path / "theirs")
    assert len(outputs) == (1 if name == "ElectraModel" else 2) + (
        name == "ElectraForQuestionAnswering"
    )
    config = read.discriminator or read.generator
    assert config.hidden_dropout_prob == 0.2
    assert config.attention_probs_dropout_prob == 0.3
    assert config.initializer_range == 0.05
    writers = [huggingface, electra_tf_format]
    # The original's generators have heads 64 wide, and it has one GELU.
    if read.generator is None and "hidden_act" not in settings:
        writers.append(original)
    for writer in writers:
        folder = tmp_path / writer.__name__.rpartition(".")[2]
        writer.write(read, str(folder))
        again = reading.read_checkpoint(folder)
        models.assert_same_tensors(read, again)
        assert again.head == read.head
        assert again.discriminator == read.discriminator
        assert again.generator == read.generator
    assert_parity(read, tmp_path / "huggingface")
    ours = getattr(transformers, name).from_pretrained(tmp_path / "huggingface")
    expected, found = theirs.state_dict(), ours.state_dict()
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        assert torch.equal(value, found[key]), key


@pytest.mark.parametrize(
    ("kind", "num_outputs"),
    [
        ("classification", 3),
        ("classification", 4),  # Half the hidden channels.
        ("regression", 1),
        ("tagging", 5),
        ("question_answering", 0),
    ],
)
def test_a_head_of_ours_computes_the_same_there(tmp_path, kind, num_outputs):
    checkpoint = models.finetuned(kind, num_outputs)
    huggingface.write(checkpoint, str(tmp_path))
    assert len(assert_parity(checkpoint, tmp_path)) >= 2
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    if kind in ("classification", "tagging"):
        assert config.id2label[1] == "label 1"
        assert config.num_labels == num_outputs


@pytest.mark.parametrize("untied", [True, False])
def test_a_pair_computes_the_same_there(tmp_path, untied):
    checkpoint = models.pretrained(untied)
    huggingface.write(checkpoint, str(tmp_path / "pair"))
    outputs = {"sequence_output", "discriminator_logits"}
    outputs |= {"generator_sequence_output", "generator_logits"}
    assert assert_parity(checkpoint, tmp_path / "pair") == outputs


def test_a_pair_that_shares_embeddings_is_recognised(tmp_path):
    generator = make_model("ElectraForMaskedLM", True, seed=1)
    discriminator = make_model("ElectraForPreTraining", True, seed=2)
    table = discriminator.electra.embeddings
    generator.electra.embeddings.load_state_dict(table.state_dict())
    generator.save_pretrained(tmp_path / "pair" / "generator")
    discriminator.save_pretrained(tmp_path / "pair" / "discriminator")
    read = reading.read_checkpoint(tmp_path / "pair")
    assert "generator/embeddings/word_embeddings" not in read.tensors
    assert len(assert_parity(read, tmp_path / "pair")) == 4


@pytest.mark.parametrize("wrapper", ["", "state_dict", "model", None])
def test_a_pickled_file_is_read(tmp_path, wrapper):
    """As it is, with something around it, or (None) in shards."""
    model = make_model("ElectraForPreTraining", True)
    model.save_pretrained(tmp_path)
    expected = reading.read_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    state = model.state_dict()
    if wrapper is None:
        names = sorted(state)
        weight_map = {}
        for part, keys in (("a.bin", names[::2]), ("b.bin", names[1::2])):
            torch.save({key: state[key] for key in keys}, tmp_path / part)
            weight_map |= dict.fromkeys(keys, part)
        (tmp_path / "pytorch_model.bin.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": weight_map})
        )
    else:
        content = {wrapper: state, "epoch": 3} if wrapper else state
        torch.save(content, tmp_path / "pytorch_model.bin")
    models.assert_same_tensors(expected, reading.read_checkpoint(tmp_path))
    inputs = verify.random_inputs(expected.discriminator, None)
    outputs = verify.forward(expected, inputs)
    theirs = huggingface.forward(tmp_path, inputs)
    differences = verify.compare(outputs, theirs, inputs["input_mask"])
    assert differences and all(d.fits for d in differences)


class _Malicious:
    """Unpickling this makes a file, where code is run."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_code_in_a_pickled_file_is_not_run(tmp_path):
    make_model("ElectraForPreTraining", True).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    content = {"x": _Malicious(str(tmp_path / "made"))}
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="code in it is never run"):
        reading.read_checkpoint(tmp_path)
    assert not (tmp_path / "made").exists()


def test_bfloat16_is_read(tmp_path):
    model = make_model("ElectraForPreTraining", True)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    read = reading.read_checkpoint(tmp_path)
    assert {t.dtype.name for t in read.tensors.values()} == {"float32"}
    assert len(assert_parity(read, tmp_path)) == 2


def test_a_head_for_multiple_choice_is_refused(tmp_path, capsys):
    make_model("ElectraForMultipleChoice", True).save_pretrained(tmp_path)
    read = reading.read_checkpoint(tmp_path)
    assert read.head is None
    unused = {"classifier.bias", "classifier.weight"}
    unused |= {f"sequence_summary.summary.{x}" for x in ("bias", "weight")}
    assert set(read.unused) == unused
    assert assert_parity(read, tmp_path) == {"sequence_output"}
    args = (tmp_path, tmp_path / "ours", "electra_tf")
    assert convert(*args) == 1
    assert "ElectraForMultipleChoice; without" in capsys.readouterr().err
    assert convert(*args, "--encoder-only") == 0


UNCASED = [*helpers.VOCAB[:5], "un", "##able", "cafe", "a", ",", "!", "\u4eac"]
CASED = [*helpers.VOCAB[:5], "un", "##able", "Caf\xe9", "A", ",", "!", "\u4eac"]
TEXTS = [
    "Unable, A caf\xe9!",
    "unable \u4eac\u4eacA",
    "",
    "caf\xe9 Caf\xe9 zzz",
]


@pytest.mark.parametrize(
    ("tokens", "do_lower_case", "strip_accents"),
    [
        (UNCASED, True, True),
        (UNCASED, True, False),
        (CASED, False, False),
        (CASED, False, True),  # Without lower-casing, accents are kept.
    ],
)
def test_their_tokenizer_agrees(tmp_path, tokens, do_lower_case, strip_accents):
    checkpoint = models.finetuned()
    name = "electra/embeddings/word_embeddings"
    table = checkpoint.tensors[name][: len(tokens)]
    checkpoint = dataclasses.replace(
        checkpoint,
        tensors=checkpoint.tensors | {name: table},
        discriminator=helpers.encoder_config(vocab_size=len(tokens)),
        vocabulary=Vocabulary(tuple(tokens), do_lower_case, strip_accents),
    )
    huggingface.write(checkpoint, str(tmp_path))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = helpers.make_tokenizer(
        tmp_path / "vocab.txt", do_lower_case, strip_accents
    )
    packed = ours.pack_inputs([ours.tokenize(TEXTS)], helpers.LENGTH)
    found = theirs(TEXTS, padding=True, return_tensors="np")
    names = ("input_ids", "attention_mask", "token_type_ids")
    for values, name in zip(packed.values(), names, strict=True):
        np.testing.assert_array_equal(values, found[name])
    assert theirs.model_max_length == helpers.LENGTH
    assert theirs.mask_token_id == 4


def test_the_command_prints_parity(tmp_path, capsys):
    name = "ElectraForSequenceClassification"
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    make_model(name, True, num_labels=3).save_pretrained(theirs)
    assert convert(theirs, ours, "electra_tf") == 0
    out = capsys.readouterr().out
    assert "parity of the input with huggingface itself" in out
    assert "head           classification 'classification', 3 outputs" in out
    assert convert(ours, tmp_path / "back", "huggingface") == 0
    out = capsys.readouterr().out
    assert "parity of the output with huggingface its" in out


@pytest.mark.parametrize("lower", [True, False, None])
@pytest.mark.parametrize("strip", [True, False, None])
@pytest.mark.parametrize(
    "name", ["ElectraTokenizer", "TokenizersBackend", None]
)
def test_a_tokenizer_is_read_as_they_read_it(tmp_path, lower, strip, name):
    tokens = (*CASED, "caf\xe9", "Cafe", "cafe", "##A", "a")
    config = helpers.encoder_config(vocab_size=len(tokens))
    shapes = sizes.encoder_shapes(config, "electra")
    checkpoint = models.finetuned(
        tensors=models.random_tensors(shapes),
        discriminator=config,
        head=None,
        vocabulary=Vocabulary(tokens, False, False),
    )
    huggingface.write(checkpoint, str(tmp_path))
    # Its tokenizer.json says that text is cased.
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path)
    settings = {"do_lower_case": lower, "strip_accents": strip}
    settings["tokenizer_class"] = name
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({n: v for n, v in settings.items() if v is not None})
    )
    with notices.heard() as said:
        read = reading.read_checkpoint(tmp_path)
    ours = tokenization.FullTokenizer(read.vocabulary)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    special = [[2, *row, 3] for row in ours.tokenize(TEXTS).to_list()]
    equal = special == theirs(TEXTS)["input_ids"]
    is_lossy = "strip_accents=True" in " ".join(said)
    assert equal or is_lossy, (special, theirs(TEXTS)["input_ids"])
    # The tokenizer itself, in a text.
    text = "unable [MASK]"
    expected = theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.tokenize([text]).to_list() != [expected]
    assert "such as [MASK]" in " ".join(said)
