"""Tests of the signatures of every kind but question answering."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.model import task_head, windows
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.model.task_head import TaskHead
from electra_tf.serving import (
    exportable,
    inputs,
    kinds,
    saved_model,
    token_signatures,
)
from electra_tf.tasks import features as features_lib
from electra_tf.tasks import tag_schemes, tagging
from electra_tf.text.tokenization import ENCODER_FEATURES
from tests import helpers, notices
from tests.checkpoints import models

LENGTH = helpers.LENGTH
TEXTS = ["wa wb", "", "wc wd " * 20, "unknown W\u00c1 wo"]
PAIRS = ["wc", "wd we", "wa wb " * 20, ""]


def load_from(folder, checkpoint, *args, **options):
    """What is exported of a checkpoint, which is written there."""
    (folder / "vocab").mkdir(exist_ok=True)
    electra_tf_format.write(checkpoint, str(folder / "model"))
    paths = str(folder / "model"), str(folder / "vocab")
    return exportable.load(*paths, *args, **options)


@pytest.fixture
def load(tmp_path):
    """A function from a checkpoint to what is exported of it."""
    return functools.partial(load_from, tmp_path)


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """A function from a checkpoint to its source and signatures."""

    def make(checkpoint, **options):
        folder = tmp_path_factory.mktemp("signatures")
        found = load_from(folder, checkpoint, **options)
        return found, saved_model.make_served_model(found).signatures()

    return make


@pytest.fixture(scope="module")
def pairs(serve):
    return serve(models.finetuned(), has_pairs=True)


@pytest.fixture(scope="module")
def tagger(serve):
    return serve(models.finetuned("tagging", 4))


@pytest.fixture(scope="module")
def detector(serve):
    return serve(models.pretrained())


@pytest.fixture(scope="module")
def encoder(serve):
    return serve(models.pretrained(), kind="encoding")


def strings(values):
    return tf.constant(values, tf.string)


def outputs_of(found, features):
    outputs = found.model({k: tf.constant(v) for k, v in features.items()})
    return outputs["task_outputs"][found.task_name]


def packed(found, texts):
    """What training makes of single texts."""
    return features_lib.text_features(
        texts, [None] * len(texts), found.tokenizer, LENGTH
    )


def with_head(checkpoint, **changes):
    head = dataclasses.replace(checkpoint.head, **changes)
    return dataclasses.replace(checkpoint, head=head)


def tagging_features(found, labels, sentences):
    """What training makes of sentences of words."""
    task = tagging.TaggingTask(
        found.task_name, {}, as_original=False, labels=labels
    )
    task.segment = found.head.segment_of_words()
    examples = [
        tagging.TaggingExample(i, words, (labels[0],) * len(words))
        for i, words in enumerate(sentences)
    ]
    return task.features(examples, found.tokenizer, LENGTH)


def in_text(text, starts, ends):
    """The parts of a text from starts to ends; -1 is none."""
    return [text[a:b] for a, b in zip(starts, ends, strict=True) if a >= 0]


def test_pairs_are_packed_as_in_training(pairs):
    found, signatures = pairs
    answer = signatures["serving_default"](
        text=strings(TEXTS), text_pair=strings(PAIRS)
    )
    features = features_lib.text_features(TEXTS, PAIRS, found.tokenizer, LENGTH)
    # Rows of both forms: the last one has no second text.
    assert features["segment_ids"].any(axis=1).tolist() == [1, 1, 1, 0]
    expected = tf.nn.softmax(outputs_of(found, features)["logits"])
    np.testing.assert_allclose(answer["scores"], expected, atol=1e-5)
    tokens = signatures["tokens"](
        **{k: tf.constant(v) for k, v in features.items()}
    )
    np.testing.assert_allclose(tokens["scores"], expected, atol=1e-5)
    assert tokens["label"].numpy().tolist() == answer["label"].numpy().tolist()


def test_says_which_rows_are_cut(serve, pairs, tagger, detector, encoder):
    fits, longer = "wa " * (LENGTH - 2), "wa " * (LENGTH - 1)
    single = serve(models.finetuned(), has_pairs=False)
    for _, signatures in (single, tagger, detector, encoder):
        answer = signatures["serving_default"](text=strings([fits, longer, ""]))
        assert answer["truncated"].numpy().tolist() == [False, True, False]
    _, signatures = pairs
    answer = signatures["serving_default"](
        text=strings(["wa " * 5, "wa " * 5, fits, longer]),
        text_pair=strings(["wb " * 4, "wb " * 5, "", ""]),
    )
    assert answer["truncated"].numpy().tolist() == [False, True, False, True]
    words = [["wa"] * (LENGTH - 2) + [""], ["wa"] * (LENGTH - 1)]
    answer = tagger[1]["words"](words=strings(words))
    assert answer["truncated"].numpy().tolist() == [False, True]


@pytest.mark.parametrize(
    ("kind", "num_outputs", "options"),
    [
        ("classification", 3, {}),
        *(
            pytest.param(*case, marks=pytest.mark.dear)
            for case in (
                ("classification", 3, {"pooling": "mean"}),
                ("multi_label_classification", 3, {}),
                ("regression", 1, {"pooling": "mean"}),
                ("regression", 1, {"by_tokens": True}),
            )
        ),
    ],
)
def test_long_texts_are_averaged_over_windows_as_in_training(
    serve, kind, num_outputs, options
):
    by_tokens = options.get("by_tokens", False)
    setting = windows.Windows(LENGTH, 4, 3, by_tokens=by_tokens)
    options = {k: v for k, v in options.items() if k == "pooling"}
    checkpoint = with_head(
        models.finetuned(kind, num_outputs),
        options={"windows": setting.about()} | options,
    )
    found, signatures = serve(checkpoint)
    texts = ["wa wb", "", "wc wd we " * 9, "wa wb wc wd we " * 3]
    model = FinetuningModel(
        found.encoder.config,
        [task_head.make_head(checkpoint.head, found.encoder.config)],
        setting,
    )
    model.set_weights([v.numpy() for v in found.keras_variables])
    # Of the longest text, what is behind 12 + 2 * 4 tokens is not read.
    features = features_lib.whole_texts(texts, found.tokenizer, 20)
    outputs = model(features)["task_outputs"][found.task_name]
    answer = signatures["serving_default"](text=strings(texts))
    expected = {
        "classification": lambda: tf.nn.softmax(outputs["logits"]),
        "multi_label_classification": lambda: tf.sigmoid(outputs["logits"]),
        "regression": lambda: outputs["predictions"],
    }[kind]()
    name = "value" if kind == "regression" else "scores"
    np.testing.assert_allclose(answer[name], expected, atol=1e-5)
    assert answer["truncated"].numpy().tolist() == [False, False, True, False]
    cut = outputs_of(found, packed(found, texts))
    is_long = [text.count(" ") > LENGTH - 2 for text in texts]
    values = "predictions" if kind == "regression" else "logits"
    differs = np.abs(outputs[values] - cut[values]).reshape(len(texts), -1)
    assert (differs.max(axis=1) > 1e-3).tolist() == is_long


@pytest.mark.dear
def test_many_rows_go_through_the_model_in_parts(pairs, monkeypatch):
    found, signatures = pairs
    monkeypatch.setattr(
        saved_model.text_signatures.TextModel, "TOKENS_AT_ONCE", 3 * LENGTH
    )
    in_parts = saved_model.make_served_model(found).signatures()
    request = {"text": strings(TEXTS * 5), "text_pair": strings(PAIRS * 5)}
    np.testing.assert_allclose(
        in_parts["serving_default"](**request)["scores"],
        signatures["serving_default"](**request)["scores"],
        atol=1e-6,
    )


def test_a_large_model_has_variables_for_constants(pairs, monkeypatch):
    found, signatures = pairs
    monkeypatch.setattr("electra_tf.serving.signatures.MOST_BYTES", 0)
    large = saved_model.make_served_model(found).signatures()
    request = {"text": strings(TEXTS), "text_pair": strings(PAIRS)}
    answers = [x["serving_default"](**request) for x in (signatures, large)]
    np.testing.assert_allclose(*(x["scores"] for x in answers), atol=1e-6)
    assert signatures["tokens"].variables == ()
    assert len(large["tokens"].variables) == len(found.keras_variables)


def test_multi_label(serve):
    head = TaskHead("multi_label_classification", "letters", ("x", "y", "z"), 3)
    found, _ = serve(dataclasses.replace(models.finetuned(), head=head))
    features = packed(found, TEXTS)
    # About half of the texts get each label.
    (bias,) = (
        v for v in found.keras_variables if v.path.endswith("s/dense/bias")
    )
    logits = outputs_of(found, features)["logits"]
    bias.assign(bias - tf.reduce_mean(logits, axis=0))
    expected = tf.sigmoid(outputs_of(found, features)["logits"]).numpy()
    signatures = saved_model.make_served_model(found).signatures()
    answer = signatures["serving_default"](text=strings(TEXTS))
    np.testing.assert_allclose(answer["scores"], expected, atol=1e-5)
    assert [label.decode() for label in answer["label"].numpy()] == [
        "|".join(n for n, s in zip("xyz", row, strict=True) if s > 0.5)
        for row in expected
    ]
    assert len(set(answer["label"].numpy())) > 1


def test_regression_has_the_unit_of_the_labels(serve):
    options = {"min_value": 1.0, "scale": 4.0}
    found, signatures = serve(
        with_head(models.finetuned("regression", 1), options=options)
    )
    answer = signatures["serving_default"](text=strings(TEXTS))
    predictions = outputs_of(found, packed(found, TEXTS))["predictions"].numpy()
    np.testing.assert_allclose(
        answer["value"], predictions * 4.0 + 1.0, atol=1e-5
    )


@pytest.mark.parametrize("segment", [1, 0])
def test_tags_words_as_the_evaluation(tagger, serve, segment):
    found, signatures = tagger
    if segment == 0:
        checkpoint = with_head(models.finetuned("tagging", 4), segment=0)
        found, signatures = serve(checkpoint)
    assert found.metadata["segment"] == segment
    sentences = [
        ("wa", "wb-wc", "wd"),
        ("\x00", "we"),
        (*(f"w{letter}" for letter in "abcdefghi"), "wj-wk", "wl"),
        ("",),
    ]
    features = tagging_features(found, found.labels, sentences)
    scores = tf.nn.softmax(outputs_of(found, features)["logits"]).numpy()
    padded = [[*s, *[""] * (11 - len(s))] for s in sentences]
    answer = signatures["words"](words=strings(padded))
    # [CLS], nine words of a token each, "wj-wk" with three does not fit.
    for row, which in ((0, [0, 1, 2]), (1, [1]), (2, list(range(9))), (3, [])):
        expected = scores[row][: len(which)]
        labels = answer["labels"][row].numpy()
        assert np.flatnonzero(labels != b"").tolist() == which
        assert [labels[i].decode() for i in which] == [
            found.labels[i] for i in expected.argmax(-1)
        ]
        np.testing.assert_allclose(
            answer["scores"].numpy()[row][which],
            expected.max(-1, initial=0.0) if len(which) else [],
            atol=1e-5,
        )


@pytest.mark.parametrize(
    ("scheme", "form"),
    [("IOB1", "B-PER"), ("BIO", "PER_B"), ("BILOU", "B-PER")],
)
def test_tags_are_in_the_scheme_and_form_of_their_file(serve, scheme, form):
    labels = ("B-X", "I-X", "E-X", "S-X", "O")
    options = {"scheme": scheme, "form": form}
    checkpoint = models.finetuned("tagging", 5)
    found, signatures = serve(
        with_head(checkpoint, labels=labels, options=options)
    )
    random = np.random.default_rng(1)
    rows = [
        tuple(f"w{c}" for c in random.permutation([*"abcdefgh"]))
        for _ in range(8)
    ]
    features = tagging_features(found, labels, rows)
    logits = outputs_of(found, features)["logits"].numpy()
    answer = signatures["words"](words=strings([list(row) for row in rows]))
    for row, words in enumerate(rows):
        tags = [labels[i] for i in logits[row][: len(words)].argmax(-1)]
        assert [x.decode() for x in answer["labels"][row].numpy()] == (
            tag_schemes.in_scheme(tags, scheme, form)
        )


def test_tags_raw_text_with_offsets(tagger):
    _, signatures = tagger
    text = "wa, \U0001f600 (wb-wc)"
    answer = signatures["serving_default"](text=strings([text, "wa"]))
    answer = {name: values.numpy() for name, values in answer.items()}
    found = ["wa", ",", "\U0001f600", "(", "wb-wc", ")"]
    assert [w.decode() for w in answer["words"][0]] == found
    assert in_text(text, answer["starts"][0], answer["ends"][0]) == found
    same = signatures["words"](words=strings([found]))
    assert answer["labels"][0].tolist() == same["labels"][0].numpy().tolist()
    assert answer["words"][1].tolist() == [b"wa", *[b""] * 5]
    assert answer["starts"][1].tolist() == [0, *[-1] * 5]
    nothing = signatures["serving_default"](text=strings(["", ""]))
    assert nothing["labels"].shape == (2, 0)


def test_words_behind_the_cut_have_no_label(tagger):
    _, signatures = tagger
    # Ten tokens fit, and a word without one takes no room.
    texts = ["wa \x00 " + "wb " * 100, "wc " * 100, "wd"]
    answer = signatures["serving_default"](text=strings(texts))
    answer = {name: values.numpy() for name, values in answer.items()}
    for i, text in enumerate(texts):
        words = text.split(" ")[: text.count("w") + text.count("\x00")]
        assert [w.decode() for w in answer["words"][i] if w] == words
        assert in_text(text, answer["starts"][i], answer["ends"][i]) == words
    has_label = [np.flatnonzero(of != b"").tolist() for of in answer["labels"]]
    assert has_label == [[0, *range(2, 11)], list(range(10)), [0]]
    np.testing.assert_array_equal(answer["scores"] > 0, answer["labels"] != b"")
    for i in (1, 2):
        alone = signatures["serving_default"](text=strings(texts[i : i + 1]))
        same = alone["labels"].numpy()[0]
        assert answer["labels"][i][: len(same)].tolist() == same.tolist()


def test_padding_has_a_bound(tagger, monkeypatch):
    found, _ = tagger
    monkeypatch.setattr(token_signatures, "MOST_PADDING", 8)
    call = saved_model.make_served_model(found).signatures()["serving_default"]
    assert call(text=strings(["wa " * 5, "wa", "wa"]))["words"].shape == (3, 5)
    assert call(text=strings(["wa " * 50]))["words"].shape == (1, 50)
    assert call(text=strings([]))["words"].shape == (0, 0)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="at most 8 words of padding"
    ):
        call(text=strings(["wa " * 5, "wa", "wa", ""]))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("U.N.-led Paris.", ["U.N.-led", "Paris", "."]),
        (' "... a!"', ['"...', "a", '!"']),
        ("\u00c9\u0301\u200b!\u3000b", ["\u00c9\u0301\u200b", "!", "b"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_words_of_raw_text(text, expected):
    words, starts, ends = inputs.words_of(strings([text, "x"]))
    assert [w.decode() for w in words[0].numpy()] == expected
    assert in_text(text, starts[0].numpy(), ends[0].numpy()) == expected
    assert words[1].numpy().tolist() == [b"x"]


def test_detects_replaced_tokens(detector):
    found, signatures = detector
    assert found.kind == "replaced_token_detection"
    answer = signatures["serving_default"](text=strings(TEXTS))
    answer = {name: values.numpy() for name, values in answer.items()}
    assert [t.decode() for t in answer["tokens"][0]][:3] == ["wa", "wb", ""]
    features = packed(found, TEXTS)
    expected = found.model.probabilities(
        *(features[name] for name in ENCODER_FEATURES)
    ).numpy()
    for row, mask in enumerate(features["input_mask"]):
        size = mask.sum() - 2
        probabilities = answer["probabilities"][row]
        np.testing.assert_allclose(
            probabilities[:size], expected[row, 1 : 1 + size], atol=1e-5
        )
        assert not probabilities[size:].any()
        assert (answer["starts"][row][size:] == -1).all()
    # Of the accented word, which is lower-cased.
    assert TEXTS[3][answer["starts"][3][1] : answer["ends"][3][1]] == "W\u00c1"


def test_encodes(encoder):
    found, signatures = encoder
    answer = signatures["serving_default"](text=strings(TEXTS))
    answer = {name: values.numpy() for name, values in answer.items()}
    features = packed(found, TEXTS)
    expected = found.model(
        *(tf.constant(features[n]) for n in ENCODER_FEATURES)
    )
    mask = answer["input_mask"]
    np.testing.assert_array_equal(mask, features["input_mask"])
    np.testing.assert_allclose(
        answer["pooled_output"], expected["pooled_output"], atol=1e-5
    )
    np.testing.assert_allclose(
        answer["sequence_output"][mask == 1],
        expected["sequence_output"].numpy()[mask == 1],
        atol=1e-5,
    )
    assert answer["starts"][0].tolist()[:5] == [-1, 0, 3, -1, -1]
    assert answer["ends"][0].tolist()[:5] == [-1, 2, 5, -1, -1]
    none = signatures["serving_default"](text=strings([]))
    assert none["pooled_output"].shape == (0, 8)


def test_tokens_of_a_wrong_size_or_number_are_refused(encoder):
    _, signatures = encoder
    ids = tf.fill([1, 4], 5)
    ones, zeros = tf.ones_like(ids), tf.zeros_like(ids)
    request = {"input_ids": ids, "input_mask": ones, "segment_ids": zeros}
    for changes, message in (
        ({"input_ids": tf.fill([1, 4], 20)}, "input_ids from 0 to 19"),
        ({"input_mask": ids}, "input_mask from 0 to 1"),
        ({"input_mask": tf.ones([2, 4], tf.int32)}, "as many values"),
        (
            dict.fromkeys(request, tf.ones([1, LENGTH + 1], tf.int32)),
            "at most 12 tokens a row",
        ),
        ({"input_mask": zeros}, "input_mask to have a 1 in each row"),
        (dict.fromkeys(request, ids[:, :0]), "a 1 in each row"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            signatures["tokens"](**(request | changes))
    for none in (tf.zeros([0, 4], tf.int32), tf.zeros([0, 0], tf.int32)):
        answer = signatures["tokens"](**dict.fromkeys(ENCODER_FEATURES, none))
        assert answer["pooled_output"].shape == (0, 8)


def test_a_length_that_training_cut_is_cut_again(load):
    # A fine-tuning with max_seq_length=128 of an encoder with 12 positions.
    source = load(dataclasses.replace(models.finetuned(), max_seq_length=128))
    assert source.max_seq_length == 12


def test_says_what_no_file_says(load):
    with notices.heard() as lines:
        found = load(with_head(models.finetuned("tagging", 4), segment=None))
    assert found.metadata["segment"] == 1
    assert "nothing says in which segment the tagger reads" in lines[0]
    line, marks = notices.of(load, models.finetuned())
    assert "taken as one (--pairs)" in line and "strip_accents" in marks
    found = load(models.finetuned(), has_pairs=False)
    assert found.metadata["notes"] == []


def test_says_which_of_several_heads_it_has(load):
    checkpoint = models.finetuned()
    name = checkpoint.head.task_name
    others = {
        key.replace(f"/{name}/", "/zoo/"): tensor
        for key, tensor in checkpoint.tensors.items()
    }
    both = dataclasses.replace(checkpoint, tensors=others | checkpoint.tensors)
    told = f"of the heads for {name}, zoo only that for {name}, the first"
    assert told in "\n".join(notices.of(load, both))
    assert told not in "\n".join(notices.of(load, both, kinds.ENCODING))


def test_a_head_that_is_not_had_here_is_no_encoder(load, monkeypatch):
    checkpoint = dataclasses.replace(
        models.pretrained(), other_head="ElectraForMultipleChoice"
    )
    monkeypatch.setattr(
        exportable.reading, "read_checkpoint", lambda *_: checkpoint
    )
    with pytest.raises(errors.CheckpointError, match="MultipleChoice.*--kind"):
        load(models.pretrained())
    assert load(models.pretrained(), kinds.ENCODING).kind == kinds.ENCODING


WINDOWS = {"windows": {"stride": 8, "max_windows": 3}}


@pytest.mark.parametrize(
    ("checkpoint", "options", "message"),
    [
        (models.pretrained(), {"has_pairs": True}, "of one text.*--pairs"),
        (
            models.finetuned("question_answering", 0),
            {"has_pairs": False},
            "of two texts.*--no-pairs",
        ),
        (models.finetuned(), {"kind": "tagging"}, "for tagging.*for classif"),
        (
            models.finetuned(),
            {"kind": "replaced_token_detection"},
            "with the discriminator's head",
        ),
        (models.finetuned(), {"max_seq_length": 13}, "from 8 to the 12"),
        (
            with_head(models.finetuned(), options=WINDOWS),
            {"max_seq_length": 8},
            "fit max_seq_length=8",
        ),
        (
            with_head(models.finetuned(), options=WINDOWS),
            {"has_pairs": True},
            "Expected no pairs",
        ),
    ],
)
def test_refuses_what_a_model_cannot_do(load, checkpoint, options, message):
    with pytest.raises((ValueError, errors.ConfigError), match=message):
        load(checkpoint, **options)


def test_offsets_are_those_of_cleaned_text(serve):
    vocabulary = dataclasses.replace(
        models.VOCABULARY, text_cleaning="kcelectra"
    )
    _, signatures = serve(models.pretrained(vocabulary=vocabulary))
    text = strings(["wa \u4e2d http://x.y/z   wb"])
    answer = signatures["serving_default"](text=text)
    cleaned = answer["cleaned_text"].numpy()[0].decode()
    assert "http" not in cleaned
    starts, ends = answer["starts"].numpy()[0], answer["ends"].numpy()[0]
    assert in_text(cleaned, starts, ends) == ["wa", "wb"]
