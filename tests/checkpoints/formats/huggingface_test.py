"""Tests of checkpoints/formats/huggingface.py that need no transformers.

tests/interop/ compares with transformers itself.
"""

import dataclasses
import json
import re
import shutil
import sys
from unittest import mock

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from electra_tf.checkpoints import reading
from electra_tf.checkpoints.formats import huggingface
from electra_tf.errors import CheckpointError
from electra_tf.text.vocabulary import Vocabulary
from tests import helpers, notices
from tests.checkpoints import cards, models

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n"


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(helpers.read_json(path) | changes))


def edit_tensors(folder, edit):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.fixture
def finetuned(tmp_path):
    huggingface.write(models.finetuned(), str(tmp_path / "model"))
    return tmp_path / "model"


@pytest.fixture
def pair(tmp_path):
    huggingface.write(models.pretrained(), str(tmp_path / "pair"))
    return tmp_path / "pair"


def test_other_activations_travel_with_a_note_on_the_head(tmp_path):
    checkpoint = models.with_hidden_act(models.pretrained(), "relu")
    note = "this package relu, as the original does"
    written = notices.of(huggingface.write, checkpoint, str(tmp_path))
    read = notices.of(reading.read_checkpoint, tmp_path)
    assert note in " ".join(written) and note in " ".join(read)
    # Nothing else has such a head.
    (line,) = notices.of(reading.read_checkpoint, tmp_path / "discriminator")
    assert "such as [MASK]" in line


def test_one_of_a_pair_is_read_by_itself(pair):
    generator = reading.read_checkpoint(pair / "generator")
    assert generator.discriminator is None
    assert generator.generator.hidden_size == 4
    assert "generator/embeddings/word_embeddings" in generator.tensors
    shutil.rmtree(pair / "discriminator")
    models.assert_same_tensors(generator, reading.read_checkpoint(pair))


def other_table(pair):
    def edit(tensors):
        tensors["electra.embeddings.word_embeddings.weight"] += 1.0

    edit_tensors(pair / "generator", edit)


def other_output_layer(pair):
    def edit(tensors):
        table = tensors["electra.embeddings.word_embeddings.weight"]
        tensors["generator_lm_head.weight"] = table + 1.0

    edit_tensors(pair / "generator", edit)


def two_discriminators(pair):
    shutil.rmtree(pair / "generator")
    shutil.copytree(pair / "discriminator", pair / "generator")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (other_table, "as wide as .* others, 6 wide with hidden_size=4"),
        (other_output_layer, "generator_lm_head.weight must be the table"),
        (two_discriminators, "two models of a kind"),
    ],
)
def test_refuses_a_pair_that_electra_cannot_have(pair, damage, message):
    damage(pair)
    with pytest.raises(CheckpointError, match=message):
        reading.read_checkpoint(pair)


OPTIONS = {"has_pairs": True, "min_value": 1.0, "scale": 4.0}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("regression", {"options": OPTIONS}),
        ("classification", {"options": {"windows": {"stride": 4}}}),
        ("tagging", {"segment": 0}),
        ("tagging", {"segment": 1, "options": {"as_original": True}}),
    ],
)
def test_settings_travel_that_transformers_lacks(tmp_path, kind, settings):
    """Until the weights are trained there, which does not heed them."""
    if "windows" in (options := settings.get("options", {})):
        options["windows"]["max_windows"] = 3
    vocabulary = dataclasses.replace(
        models.VOCABULARY, text_cleaning="kcelectra"
    )
    written = models.finetuned(
        *(kind, 1 if kind == "regression" else 3, settings),
        max_seq_length=9,
        vocabulary=vocabulary,
    )
    said = notices.of(huggingface.write, written, str(tmp_path))
    assert (
        "reads its words in segment 1, the tokenizer" in " ".join(said)
    ) == (settings.get("segment") == 1)
    read = reading.read_checkpoint(tmp_path)
    for field in ("head", "max_seq_length", "vocabulary"):
        assert getattr(read, field) == getattr(written, field)

    def train(tensors):
        tensors["electra.embeddings.LayerNorm.bias"] += 1.0

    edit_tensors(tmp_path, train)
    read = reading.read_checkpoint(tmp_path)
    assert read.head.unit == (0.0, 1.0) and read.max_seq_length is None
    assert read.head.segment == (0 if kind == "tagging" else None)


def test_a_tagger_has_the_tags_of_its_file_there(tmp_path):
    labels = ("B-X", "I-X", "E-X", "S-X", "O")
    options = {"scheme": "BIO", "form": "B-PER"}
    settings = {"labels": labels, "options": options}
    written = models.finetuned("tagging", 5, settings)
    huggingface.write(written, str(tmp_path))
    config = helpers.read_json(tmp_path / "config.json")
    tags = ["B-X", "I-X", "I-X", "B-X", "O"]
    assert list(config["id2label"].values()) == tags
    assert config["label2id"] == {"B-X": 0, "I-X": 1, "O": 4}
    assert "labels: B-X, I-X, O" in cards.write(written, tmp_path)["."]
    assert reading.read_checkpoint(tmp_path).head == written.head
    edit_tensors(tmp_path, dict)  # As transformers saves it.
    head = reading.read_checkpoint(tmp_path).head
    assert (head.labels, head.options) == (labels, options)
    renamed = {str(i): tag.replace("X", "Y") for i, tag in enumerate(tags)}
    edit_config(tmp_path, id2label=renamed)
    head = reading.read_checkpoint(tmp_path).head
    assert head.labels == ("B-Y", "I-Y", "E-Y", "S-Y", "O")


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("ElectraForTokenClassification", "tagging"),
        (None, "tagging"),
        ("ElectraForMultipleChoice", None),
    ],
)
def test_only_the_class_tells_a_tagger(tmp_path, architecture, kind):
    huggingface.write(models.finetuned("tagging", 3), str(tmp_path))
    edit_config(tmp_path, architectures=architecture and [architecture])
    read = reading.read_checkpoint(tmp_path)
    assert (read.head and read.head.kind) == kind
    unused = () if kind else ("classifier.bias", "classifier.weight")
    assert read.unused == unused
    if kind is None:
        assert read.other_head == architecture
        with pytest.raises(CheckpointError, match=f"{architecture}; without"):
            read.refuse_other_head("it")
        assert not read.encoder_only().other_head


def test_their_threshold_of_no_answer_is_0(tmp_path):
    options = dict(models.finetuned("question_answering").head.options)
    del options["qa_na_threshold"]  # The original's.
    huggingface.write(
        models.finetuned("question_answering", settings={"options": options}),
        str(tmp_path),
    )
    head = reading.read_checkpoint(tmp_path).head
    assert head.question_answering.qa_na_threshold == -2.75
    edit_tensors(tmp_path, dict.items)
    head = reading.read_checkpoint(tmp_path).head
    assert head.question_answering.qa_na_threshold == 0.0


def test_a_head_with_a_hidden_layer_travels(finetuned, tmp_path):
    def edit(tensors):
        random = np.random.default_rng(0)
        for name in ("dense.weight", "dense.bias"):
            shape = tensors[f"classifier.{name}"].shape
            tensors[f"classifier.{name}"] = random.normal(size=shape).astype(
                np.float32
            )

    edit_tensors(finetuned, edit)
    read = reading.read_checkpoint(finetuned)
    assert read.head.hidden_activation == "gelu"
    np.testing.assert_array_equal(
        read.tensors["task_specific/letters/hidden/kernel"].T,
        load_file(finetuned / "model.safetensors")["classifier.dense.weight"],
    )
    huggingface.write(read, str(tmp_path / "again"))
    models.assert_same_tensors(
        read, reading.read_checkpoint(tmp_path / "again")
    )


def split(folder):
    """Two shards and an index in place of one file."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        shard = f"model-{number:05d}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / shard)
        weight_map |= dict.fromkeys(part, shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    return index


def without_prefix(folder):
    def edit(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("electra.")] = tensors.pop(name)

    edit_tensors(folder, edit)


def with_old_names(folder):
    def edit(tensors):
        for name in list(tensors):
            new = re.sub("LayerNorm.weight", "LayerNorm.gamma", name)
            new = re.sub("LayerNorm.bias", "LayerNorm.beta", new)
            tensors[new] = tensors.pop(name)
        tensors["electra.embeddings.position_ids"] = np.arange(12)[np.newaxis]

    edit_tensors(folder, edit)


def stale_shard(folder):
    split(folder)
    first, second = sorted(folder.glob("model-*.safetensors"))
    stale = {name: tensor + 1 for name, tensor in load_file(first).items()}
    save_file(stale | load_file(second), second)


@pytest.mark.parametrize("kind", ["tagging", None])
@pytest.mark.parametrize(
    "change", [without_prefix, with_old_names, split, stale_shard]
)
def test_other_forms_of_a_model_are_read(tmp_path, kind, change):
    checkpoint = models.finetuned(kind or "tagging", 3)
    checkpoint = checkpoint if kind else checkpoint.encoder_only()
    huggingface.write(checkpoint, str(tmp_path))
    architecture = "ElectraForTokenClassification" if kind else "ElectraModel"
    config = helpers.read_json(tmp_path / "config.json")
    assert config["architectures"] == [architecture]
    change(tmp_path)
    models.assert_same_tensors(checkpoint, reading.read_checkpoint(tmp_path))


def test_half_precision_becomes_float32_and_other_tensors_are_told(finetuned):
    def edit(tensors):
        for name in tensors:
            tensors[name] = tensors[name].astype(np.float16)
        tensors["extra"] = np.zeros(2, np.float32)

    edit_tensors(finetuned, edit)
    with notices.heard() as lines:
        read = reading.read_checkpoint(finetuned)
    assert lines[-1] == f"{finetuned}: nothing reads extra (1)"
    assert {t.dtype.name for t in read.tensors.values()} == {"float32"}
    assert read.unused == ("extra",)


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_the_tokenizer_is_written(tmp_path, lower, said):
    """With the case that follows from the tokens where nothing says it."""
    tokens = (*helpers.VOCAB[:-1], "ab" if lower else "Ab")
    vocabulary = Vocabulary(tokens, lower if said else None)
    written = models.finetuned(vocabulary=vocabulary)
    huggingface.write(written, str(tmp_path))
    settings = helpers.read_json(tmp_path / "tokenizer_config.json")
    assert settings["do_lower_case"] is lower
    assert settings["strip_accents"] is lower
    assert settings["model_max_length"] == helpers.LENGTH
    assert settings["mask_token"] == "[MASK]"
    read = reading.read_checkpoint(tmp_path).vocabulary
    assert (read.do_lower_case, read.strip_accents) == (lower, lower)


FAST = {
    "normalizer": {"type": "BertNormalizer", "lowercase": False},
    "model": {
        "type": "WordPiece",
        "vocab": {token: i for i, token in enumerate(helpers.VOCAB)},
    },
}
GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}
JAPANESE = "BertJapaneseTokenizer"


@pytest.mark.parametrize(
    ("settings", "fast", "treatment", "remark"),
    [
        ({}, None, (True, True), ""),
        ({"strip_accents": False}, None, (True, False), ""),
        (
            {"do_lower_case": False, "strip_accents": True},
            None,
            (False, True),
            "strip_accents=True",
        ),
        ({}, FAST, (True, True), "lowercase=False"),
        (GENERIC, FAST, (False, False), ""),
        (None, FAST, (False, False), ""),
        (
            {"tokenizer_class": "TokenizersBackend"},
            FAST | {"normalizer": {"type": "NFKC"}},
            (True, True),
            "normalizer='NFKC'",
        ),
        (GENERIC, FAST | {"model": {"type": "BPE"}}, (False, False), "'BPE'"),
        ({"tokenizer_class": JAPANESE}, None, (True, True), JAPANESE),
    ],
)
def test_a_tokenizer_is_read_as_transformers_does_or_noted(
    finetuned, settings, fast, treatment, remark
):
    path = finetuned / "tokenizer_config.json"
    path.unlink()
    if settings is not None:
        path.write_text(json.dumps(settings))
    if fast is not None:
        (finetuned / "tokenizer.json").write_text(json.dumps(fast))
    with notices.heard() as said:
        read = reading.read_checkpoint(finetuned)
    vocabulary = read.vocabulary
    assert (vocabulary.do_lower_case, vocabulary.strip_accents) == treatment
    assert re.search(remark, " ".join(said))
    assert "such as [MASK]" in " ".join(said)
    assert ("may get other ids" in " ".join(said)) == bool(remark)
    if fast and fast.get("model", {}).get("vocab") == FAST["model"]["vocab"]:
        (finetuned / "vocab.txt").unlink()
        assert reading.read_checkpoint(finetuned).vocabulary == vocabulary


NUMPY_LACKS = json.dumps(
    {"a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}
).encode()
FLOAT8 = len(NUMPY_LACKS).to_bytes(8, "little") + NUMPY_LACKS + b"0"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, "Expected config.json beside"),
        ("config.json", b"[" * 100_000, "Cannot read .*recursion"),
        ("config.json", b'{"architectures": []}', "type not said"),
        ("config.json", {"model_type": "bert"}, "a model of the type bert"),
        ("config.json", {"layer_norm_eps": 1e-5}, "layer_norm_eps must be"),
        ("config.json", {"hidden_act": "swish"}, "hidden_act must be .*swish"),
        ("config.json", {"hidden_size": 16}, "tensors have hidden_size=8"),
        ("config.json", {"id2label": {"0": "a"}}, "name the classes 0 to 2"),
        ("model.safetensors", None, "model.safetensors or pytor.*: neither"),
        ("model.safetensors", 4, "be cut short"),
        ("model.safetensors", -10, "be cut short"),
        ("model.safetensors", POINTER, "git lfs pull"),
        ("model.safetensors", FLOAT8, "must hold floating-point numbers"),
        ("tokenizer_config.json", {"do_lower_case": "no"}, "true or false"),
        ("tokenizer_config.json", {"text_cleaning": "soap"}, "text cleanings"),
        ("tokenizer.json", {"normalizer": 5}, "be an object"),
    ],
)
def test_what_cannot_be_read_is_one_line(finetuned, name, content, message):
    path = finetuned / name
    known = path.read_bytes() if path.exists() else b"{}"
    path.unlink(missing_ok=True)
    if isinstance(content, dict):
        content = json.dumps(json.loads(known) | content).encode()
    elif isinstance(content, int):
        content = known[:content]
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as raised:
        huggingface.read(str(finetuned))
    assert "\n" not in str(raised.value)


def test_says_who_reads_other_files(finetuned):
    (finetuned / "vocab.txt").unlink()
    fast = finetuned / "tokenizer.json"
    fast.write_text('{"model": {"vocab": {"a": 0, "b": 5}}}')
    with pytest.raises(CheckpointError, match="ids 0 to 1. Received: 2 tokens"):
        reading.read_checkpoint(finetuned)
    fast.rename(finetuned / "spiece.model")
    (line,) = notices.of(reading.read_checkpoint, finetuned)
    assert "spiece.model is a SentencePiece model" in line
    weights = finetuned / "model.safetensors"
    for name, flag in (("tf_model.h5", "tf"), ("flax_model.msgpack", "flax")):
        weights = weights.rename(finetuned / name)
        with pytest.raises(CheckpointError, match=rf"{name}.*from_{flag}=True"):
            reading.read_checkpoint(finetuned)


@pytest.mark.parametrize("wrapper", ["state_dict", "module", None])
def test_a_pickled_file_may_be_wrapped(finetuned, monkeypatch, wrapper):
    expected = reading.read_checkpoint(finetuned)
    weights = finetuned / "model.safetensors"
    content = {}
    for name, tensor in load_file(weights).items():
        content[name] = mock.MagicMock()
        content[name].float().numpy.return_value = tensor
    content = {wrapper: content, "epoch": 1} if wrapper else content
    torch = mock.MagicMock(**{"load.return_value": content})
    monkeypatch.setitem(sys.modules, "torch", torch)
    weights.rename(finetuned / "pytorch_model.bin")
    models.assert_same_tensors(expected, reading.read_checkpoint(finetuned))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("classification", {"pooling": "mean"}, "the mean of all tokens'"),
        ("multi_label_classification", {}, "room for 6 labels in 8 hidden"),
        (
            "question_answering",
            {},
            "an end that depends on the start",
        ),
    ],
)
def test_refuses_a_head_that_transformers_lacks(
    tmp_path, kind, options, message
):
    checkpoint = models.finetuned(kind, 6, {"options": options})
    with pytest.raises(CheckpointError, match=f"{message}.*--encoder-only"):
        huggingface.write(checkpoint, str(tmp_path))


def test_labels_of_transformers_are_no_names(finetuned):
    labels = helpers.read_json(finetuned / "config.json")["id2label"]
    assert labels == {str(i): f"label {i}" for i in range(3)}
    edit_config(finetuned, id2label={str(i): f"LABEL_{i}" for i in range(3)})
    assert reading.read_checkpoint(finetuned).head.labels is None
