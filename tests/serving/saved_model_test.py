"""Tests of serving/saved_model.py."""

import dataclasses
import hashlib
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import yaml
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.inference import predictor
from electra_tf.serving import saved_model, server_files
from tests import helpers
from tests.checkpoints import models
from tests.serving.conftest import LABELS, TEXTS, write_finetuned

# A program that knows nothing of electra_tf.
_CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
assert not [name for name in sys.modules if name.startswith("electra_tf")]
loaded = tf.saved_model.load(sys.argv[1])
call = loaded.signatures["serving_default"]
def ask(texts):
    answer = call(text=tf.constant(texts, tf.string))
    return {
        "dtypes": [answer["label"].dtype.name, answer["scores"].dtype.name],
        "shapes": [answer["label"].shape, answer["scores"].shape],
        "labels": [label.decode() for label in answer["label"].numpy()],
        "scores": answer["scores"].numpy().tolist(),
    }
def ask_nothing():
    try:
        return ask([])
    except tf.errors.OpError as error:
        return {"error": str(error)}
texts = json.loads(sys.argv[2])
print(json.dumps({
    "inputs": list(call.structured_input_signature[1]),
    "outputs": sorted(call.structured_outputs),
    "all": ask(texts),
    "none": ask_nothing(),
    "each": [ask([text]) for text in texts],
}, default=list))
"""


@pytest.fixture(scope="module")
def answers(exported, tmp_path_factory):
    path = exported.path
    # Neither the package nor the files that it was made from are at hand.
    environment = helpers.environment()
    del environment["PYTHONPATH"]
    result = helpers.execute(
        "-c",
        _CLIENT,
        path,
        json.dumps(TEXTS),
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_signature(answers):
    assert answers["inputs"] == ["text"]
    assert answers["outputs"] == ["label", "scores", "truncated"]


def test_answers_raw_text(answers):
    answer = answers["all"]
    assert answer["dtypes"] == ["string", "float32"]
    assert answer["shapes"] == [[5], [5, 3]]
    np.testing.assert_allclose(np.sum(answer["scores"], -1), 1.0, rtol=1e-5)
    assert answer["labels"] == [
        LABELS[i] for i in np.argmax(answer["scores"], -1)
    ]


def test_answers_an_empty_batch(answers):
    assert "error" not in answers["none"]
    assert answers["none"]["shapes"] == [[0], [0, 3]]
    assert answers["none"]["dtypes"] == ["string", "float32"]


def test_an_answer_does_not_depend_on_the_batch(answers):
    for text, one, scores in zip(
        TEXTS, answers["each"], answers["all"]["scores"], strict=True
    ):
        np.testing.assert_allclose(
            one["scores"], [scores], atol=1e-5, err_msg=repr(text)
        )


def test_answers_as_the_best_model(exported, answers):
    model = exported.model
    # [CLS] wa wb [SEP]; [CLS] [SEP]; [UNK] for "unknown" and "words".
    rows = {0: [2, 5, 6, 3], 1: [2, 3], 3: [2, 1, 1, 3], 4: [2, 1, 3]}
    # "wc", ",", "wd", "?" again and again, cut to 8 tokens.
    rows[2] = [2, 7, 1, 8, 1, 7, 1, 3]
    for number, ids in rows.items():
        ids = tf.constant([ids])
        logits = model(
            {
                "input_ids": ids,
                "input_mask": tf.ones_like(ids),
                "segment_ids": tf.zeros_like(ids),
            }
        )["task_outputs"]["letters"]["logits"]
        np.testing.assert_allclose(
            answers["all"]["scores"][number],
            tf.nn.softmax(logits)[0],
            atol=1e-5,
            err_msg=TEXTS[number],
        )


def test_metadata(exported):
    found = helpers.read_json(
        os.path.join(exported.path, "assets.extra", "metadata.json")
    )
    expected = {
        "kind": "classification",
        "task": "letters",
        "labels": LABELS,
        "has_pairs": False,
        "max_seq_length": 8,
        "do_lower_case": True,
        "strip_accents": True,
        "vocab_size": len(helpers.VOCAB),
        "type_vocab_size": 2,
        "scores": {"trial": 2, "dev": {"accuracy": 90.0}},
        "warmup_requests": [1, 1, 8, 8, 32, 32],
    }
    assert {name: found[name] for name in expected} == expected
    with open(os.path.join(exported.path, "assets", "vocab.txt"), "rb") as f:
        vocab = f.read()
    assert vocab.decode().split() == helpers.VOCAB
    assert found["vocab_sha256"] == hashlib.sha256(vocab).hexdigest()
    assert found["meaning_sha256"] == predictor.digest_of_meaning(found)
    assert found["versions"]["tensorflow"] == tf.__version__
    assert found["signatures"]["serving_default"] == {
        "inputs": {"text": {"dtype": "string", "shape": [None]}},
        "outputs": {
            "label": {"dtype": "string", "shape": [None]},
            "scores": {"dtype": "float32", "shape": [None, 3]},
            "truncated": {"dtype": "bool", "shape": [None]},
        },
        "method_name": "tensorflow/serving/predict",
    }
    assert {
        name: signature["method_name"].rpartition("/")[2]
        for name, signature in found["signatures"].items()
    } == {
        "serving_default": "predict",
        "tokens": "predict",
        "serving_bytes": "classify",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"labels": LABELS[::-1]},
        {"kind": "multi_label_classification"},
        {"has_pairs": True},
        {"do_lower_case": False},
    ],
)
def test_metadata_that_were_changed_are_refused(exported, tmp_path, change):
    version = shutil.copytree(exported.path, tmp_path / "1")
    path = version / "assets.extra" / "metadata.json"
    metadata = helpers.read_json(path)
    path.write_text(json.dumps(metadata | change))
    with pytest.raises(ValueError) as caught:
        predictor.SavedModel(str(version))
    assert str(caught.value) == (
        f"Expected in {path} the kind, labels and settings of the export. "
        "Received: others"
    )
    # Only what decides the meaning; of an earlier version nothing is known.
    for other in ({"notes": []}, change | {"meaning_sha256": None}):
        path.write_text(json.dumps(metadata | other, sort_keys=True))
        predictor.SavedModel(str(version))


def test_a_vocabulary_that_was_changed_is_refused(exported, tmp_path):
    version = shutil.copytree(exported.path, tmp_path / "1")
    path = version / "assets" / "vocab.txt"
    path.write_text("\n".join(reversed(helpers.VOCAB)))
    with pytest.raises(ValueError) as caught:
        predictor.SavedModel(str(version))
    assert str(caught.value) == (
        f"Expected in {path} the vocabulary of the export. Received: another "
        "one"
    )
    path.unlink()  # The graph has its own.
    predictor.SavedModel(str(version))


def test_versions(exported, tmp_path):
    assert os.path.basename(exported.path) == "1"
    for name in ("1", "7", "notes", "tmp-3", "\u00b2"):
        (tmp_path / name).mkdir()
    path = saved_model._rename_to_next_version(
        str(tmp_path / "tmp-3"), str(tmp_path)
    )
    assert path == str(tmp_path / "8")
    assert sorted(os.listdir(tmp_path)) == ["1", "7", "8", "notes", "\u00b2"]


def test_nothing_is_left_of_an_export_that_fails(
    exported, tmp_path, monkeypatch
):
    def save(module, path, signatures):
        os.makedirs(path)
        raise tf.errors.ResourceExhaustedError(None, None, "disk full")

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(ValueError, match="Cannot write .*exported': disk full"):
        saved_model.export(str(exported.model_dir), str(tmp_path / "exported"))
    assert os.listdir(tmp_path / "exported") == []


def test_files_for_the_server(exported, tmp_path, monkeypatch):
    folder = os.path.dirname(exported.path)
    assert sorted(os.listdir(folder)) == [
        "1",
        "batching_parameters.txt",
        "compose.yaml",
        "models.config",
    ]

    def read(name):
        with open(os.path.join(folder, name)) as f:
            return f.read()

    parsed = model_server_config_pb2.ModelServerConfig()
    text_format.Parse(read("models.config"), parsed)
    (model,) = parsed.model_config_list.config
    assert (model.name, model.base_path) == ("letters", "/models/letters")
    (service,) = yaml.safe_load(read("compose.yaml"))["services"].values()
    assert service["image"].startswith("tensorflow/serving:")
    assert service["volumes"] == [".:/models/letters:ro"]
    # What a user changed stays.
    (tmp_path / "models.config").write_text("mine")
    assert server_files.write(str(tmp_path), "letters", exported.path) == [
        "batching_parameters.txt",
        "compose.yaml",
    ]
    assert (tmp_path / "models.config").read_text() == "mine"
    # What an export of another kind wrote does not.
    batching, first = (
        tmp_path / "batching_parameters.txt",
        read("batching_parameters.txt"),
    )
    monkeypatch.setattr(server_files, "_can_split", lambda version: False)
    for written in (["batching_parameters.txt"], []):
        assert written == server_files.write(
            str(tmp_path), "letters", exported.path
        )
    assert batching.read_text() != first
    batching.write_text("mine")
    monkeypatch.undo()
    assert not server_files.write(str(tmp_path), "letters", exported.path)


def _parameters_class():
    """TF Serving's BatchingParameters, as far as the file has its fields.

    From tensorflow_serving/servables/tensorflow/session_bundle_config.proto,
    which tensorflow-serving-api lacks.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="batching.proto",
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto"],
    )
    message = file.message_type.add(name="BatchingParameters")
    for number, (name, wrapper) in enumerate(
        {
            "max_batch_size": "Int64Value",
            "batch_timeout_micros": "Int64Value",
            "max_enqueued_batches": "Int64Value",
            "num_batch_threads": "Int64Value",
            "max_execution_batch_size": "Int64Value",
            "enable_large_batch_splitting": "BoolValue",
        }.items()
    ):
        message.field.add(
            name=name,
            number=1 + number,
            label="LABEL_OPTIONAL",
            type="TYPE_MESSAGE",
            type_name=f".google.protobuf.{wrapper}",
        )
    message.field.add(
        name="pad_variable_length_inputs",
        number=20,
        label="LABEL_OPTIONAL",
        type="TYPE_BOOL",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found = pool.FindMessageTypeByName("BatchingParameters")
    return message_factory.GetMessageClass(found)


@pytest.mark.parametrize("is_tagger", [False, True])
def test_large_requests_are_split_where_answers_are_of_one_width(
    exported, tmp_path, is_tagger
):
    folder = os.path.dirname(exported.path)
    if is_tagger:
        folder = str(tmp_path / "tagger")
        checkpoint = models.finetuned("tagging", 4)
        electra_tf_format.write(checkpoint, str(tmp_path / "model"))
        saved_model.export(str(tmp_path / "model"), folder)
    with open(os.path.join(folder, "batching_parameters.txt")) as file:
        parsed = text_format.Parse(file.read(), _parameters_class()())
    largest = 128 if is_tagger else 1024
    assert server_files.largest_batch(folder) == largest
    assert parsed.max_batch_size.value == largest
    assert parsed.enable_large_batch_splitting.value is not is_tagger
    if not is_tagger:
        # Of what a warm-up request has tried. The server does not start where
        # this is more than max_batch_size, and refuses what is more than that.
        assert parsed.max_execution_batch_size.value == 32
    assert parsed.pad_variable_length_inputs
    assert server_files.largest_batch(str(tmp_path)) is None


def test_the_model_takes_its_warm_up_requests(exported):
    path = f"{exported.path}/assets.extra/tf_serving_warmup_requests"
    signature = tf.saved_model.load(exported.path).signatures["serving_default"]
    sizes = []
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        request = log.predict_log.request
        assert request.model_spec.name == "letters"
        assert request.model_spec.signature_name == "serving_default"
        texts = tf.make_ndarray(request.inputs["text"])
        sizes.append(len(texts))
        assert len(signature(text=tf.constant(texts))["label"]) == len(texts)
    assert sizes == [1, 1, 8, 8, 32, 32]


@pytest.mark.parametrize(
    "name, folder, expected",
    [(None, "my model", "my_model"), ("a.b-1", "x", "a.b-1")],
)
def test_name_of_the_model(name, folder, expected):
    assert server_files.model_name(f"/served/{folder}/", name) == expected


def test_the_name_of_a_configuration_stays(exported, tmp_path):
    server_files.write(str(tmp_path), "reviews", exported.path)
    assert server_files.model_name(str(tmp_path)) == "reviews"
    server_files.refuse_other_name(str(tmp_path), "reviews")
    with pytest.raises(
        ValueError, match="has, reviews, or another --output. R"
    ):
        server_files.refuse_other_name(str(tmp_path), "other")


def test_refuses_a_name_that_is_no_address():
    with pytest.raises(ValueError, match="Received: 'a/b'"):
        server_files.model_name("/served", "a/b")


def refusal(model_dir, output, **options):
    with pytest.raises(ValueError) as caught:
        saved_model.export(str(model_dir), str(output), **options)
    assert not os.path.exists(output)
    return str(caught.value)


def test_refuses_a_pretrained_model(tmp_path):
    helpers.write_pretrained(tmp_path / "model")
    assert refusal(
        tmp_path / "model", tmp_path / "exported", kind="classification"
    ) == (
        "Expected a model that was fine-tuned for classification. Received: "
        f"{tmp_path / 'model'}, with no fine-tuned head"
    )


@pytest.mark.parametrize("name", ["results.json", "model.json"])
def test_refuses_an_unfinished_run(tmp_path, name):
    model_dir, _ = write_finetuned(tmp_path)
    os.remove(model_dir / name)
    assert refusal(model_dir, tmp_path / "exported") == (
        f"Expected a finished fine-tuning run with {name} in {model_dir}: run "
        "electra-tf finetune first"
    )


@pytest.mark.parametrize("trials", ["x", [1]])
def test_refuses_odd_results(tmp_path, trials):
    model_dir, _ = write_finetuned(tmp_path)
    results = {"best_on_dev": 2, "trials": trials}
    (model_dir / "results.json").write_text(json.dumps(results))
    assert refusal(model_dir, tmp_path / "exported") == (
        f"{model_dir}/results.json: trials must be a list, each part of it an "
        f"object. Received: {trials!r}"
    )


@pytest.mark.parametrize("kind", ["classification", "question_answering"])
def test_refuses_two_texts_without_a_second_segment(tmp_path, kind):
    found = models.finetuned(kind)
    name = "electra/embeddings/token_type_embeddings"
    head = found.head
    if kind == "classification":
        head = dataclasses.replace(head, options={"has_pairs": True})
    one_segment = dataclasses.replace(
        found,
        tensors=found.tensors | {name: found.tensors[name][:1]},
        discriminator=dataclasses.replace(
            found.discriminator, type_vocab_size=1
        ),
        head=head,
    )
    model_dir = tmp_path / "model"
    electra_tf_format.write(one_segment, str(model_dir))
    assert refusal(model_dir, tmp_path / "exported") == (
        "Expected an encoder with a segment for each of two texts. Received: "
        f"{model_dir}, with type_vocab_size=1"
    )


def test_refuses_a_directory_that_is_no_model(tmp_path):
    message = refusal(tmp_path / "model", tmp_path / "exported")
    assert message.startswith("Expected a checkpoint: ")
    assert message.endswith("does not exist")
