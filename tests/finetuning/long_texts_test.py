"""Texts longer than the model: cut and counted, or read in windows."""

import dataclasses
import threading

import numpy as np
import pytest

from electra_tf import configs, errors
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import (
    finished_run,
    preparation,
    task_data,
)
from electra_tf.inference import predictor
from electra_tf.serving import saved_model
from electra_tf.tasks import text_tasks
from electra_tf.text.tokenization import ENCODER_FEATURES
from tests import helpers, notices
from tests.finetuning import runs

LENGTH = 16
# Documents of as many words; the first LENGTH say nothing.
NUM_WORDS = 60
LABELS = {"no": "wa", "yes": "wb"}
NEUTRAL = [word for word in helpers.VOCAB[5:] if word not in LABELS.values()]


def documents(seed, number):
    """Texts whose label is told by words behind the first window alone."""
    random = np.random.default_rng(seed)
    rows = []
    for index in range(number):
        label = ("no", "yes")[index % 2]
        words = random.choice(NEUTRAL, NUM_WORDS)
        is_key = random.random(NUM_WORDS) < 0.2
        is_key[:LENGTH] = False
        is_key[random.integers(LENGTH, NUM_WORDS)] = True
        words[is_key] = LABELS[label]
        rows.append((" ".join(words), label))
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a pre-trained model, and documents."""
    folder = tmp_path_factory.mktemp("long_texts")
    encoder = helpers.encoder_config(
        initializer_range=0.2,
        max_position_embeddings=LENGTH,
        hidden_size=16,
        intermediate_size=32,
        embedding_size=16,
        num_hidden_layers=1,
    )
    helpers.write_pretrained(folder / "model", encoder, max_seq_length=LENGTH)
    helpers.write_vocab(folder)
    helpers.write_tsv(folder / "train.tsv", documents(1, 256))
    helpers.write_tsv(folder / "dev.tsv", documents(2, 100))
    return folder


def make_config(data, model_dir, **changes):
    values = {
        "train_file": str(data / "train.tsv"),
        "dev_file": str(data / "dev.tsv"),
        "vocab_file": str(data / "vocab.txt"),
        "max_seq_length": LENGTH,
        "train_batch_size": 16,
        "num_train_epochs": 4.0,
        "long_texts": "windows",
    }
    return finetuning_configs.FinetuningConfig(
        init_checkpoint=str(data / "model"),
        data=finetuning_configs.FinetuningDataConfig(**(values | changes)),
        optimizer=configs.OptimizerConfig(1e-2, layerwise_lr_decay=1.0),
        run=helpers.finetuning_run_config(model_dir, steps_per_loop=16),
    )


@pytest.fixture(scope="module")
def finished(data):
    config = make_config(data, data / "windows")
    return config, runs.run(config)


def test_windows_read_what_the_cut_does_not(data, finished):
    """The label is decided by words behind the longest input."""
    assert finished[1]["dev"]["accuracy_mean"] >= 95.0
    before = set(threading.enumerate())
    config = make_config(data, data / "cut", long_texts="cut")
    assert config.run.async_checkpoints
    cut = runs.run(config)
    assert 35.0 <= cut["dev"]["accuracy_mean"] <= 65.0
    # None keeps a model that is finished.
    assert set(threading.enumerate()) <= before


@pytest.mark.dear
def test_the_exported_model_answers_as_the_evaluation(finished, tmp_path):
    config, results = finished
    path = saved_model.export(config.run.model_dir, str(tmp_path / "served"))
    trial = f"{config.run.model_dir}/trial_1"
    rows = runs.read_tsv(f"{trial}/dev_predictions.tsv")
    model = predictor.ExportedModel(path)
    answers = model.predict([[row["text"].encode()] for row in rows])
    for row, answer in zip(rows, answers, strict=True):
        assert answer["label"] == row["prediction"]
        for label, score in answer["scores"].items():
            assert score == pytest.approx(float(row[label]), abs=1e-5)
    windows = {"stride": 8, "max_windows": 32}
    assert model.metadata["windows"] == windows
    about = helpers.read_json(f"{config.run.model_dir}/model.json")
    assert about["windows"] == windows
    # What others send keeps its shape: rows of tokens, which fit.
    inputs = model.metadata["signatures"]["tokens"]["inputs"]
    assert set(inputs) == set(ENCODER_FEATURES)
    assert inputs["input_ids"]["shape"] == [None, None]
    # Texts that fit, and none at all, are answered, too.
    (short,) = model.predict([[b"wa"]])
    tokens = {"input_ids": [[2, 5, 3]], "input_mask": [[1, 1, 1]]}
    scores = model.signatures["tokens"](
        **{
            name: np.array(tokens.get(name, [[0, 0, 0]]), np.int32)
            for name in ENCODER_FEATURES
        }
    )["scores"].numpy()
    assert list(short["scores"].values()) == pytest.approx(scores[0].tolist())
    assert model.predict([]) == []


def test_cut_empty_and_unknown_texts_are_counted(data, tmp_path):
    # With [CLS] and [SEP] 15, 16 and 17 tokens, and none but these two of
    # characters that are cleaned away; of one text most words are unknown.
    texts = [" ".join(["wc"] * n) for n in (13, 14, 15)] + ["\u200b", "\x7f"]
    texts.append("zz yy w\xe4 " + "a" * 201)
    rows = [(text, ("no", "yes")[i % 2]) for i, text in enumerate(texts)]
    path = helpers.write_tsv(tmp_path / "dev.tsv", rows)

    def said(**changes):
        changes |= {"dev_file": path}
        config = make_config(data, tmp_path / "model", **changes)
        return "".join(notices.of(preparation.prepare, config))

    lines = said(long_texts="cut")
    assert "dev: 2 of 6 texts have no token" in lines
    assert "dev: 1 of 6 texts have more than 16 tokens (up to 17)" in lines
    assert "--long_texts=windows reads all" in lines
    assert "dev: 1 of 6 rows are [UNK] for the most part" in lines
    assert "in 1 word(s) of more than 200 letters" in lines
    assert "of the words, such as 'w\xe4' to 'wa': where that is" in lines
    assert "train: 256 of 256 texts have more than 24" in said(max_windows=2)


def test_pairs_that_are_cut_are_counted(tokenizer):
    task = text_tasks.ClassificationTask("pairs", ["no", "yes"])
    examples = [
        text_tasks.TextExample(i, "a b", second, "no", ("a.tsv", i))
        # With [CLS] and both [SEP] 8, 7, and without the second text 4 tokens.
        for i, second in enumerate(["c d e", "c d", " "])
    ]
    features = {"dev": task.features(examples, tokenizer, 7)}
    found = task_data.TaskData(
        task, {"dev": examples}, features, frozenset(), tokenizer, 7
    )
    (line,) = notices.of(task_data.warn_of_unread, found)
    assert "dev: 1 of 3 texts have more than 7 tokens (up to 8)" in line


@pytest.mark.parametrize(
    ("name", "content", "received"),
    [
        (
            "pairs.tsv",
            "text_a\ttext_b\tlabel\nwa\twb\tno\nwc\twd\tyes\n",
            "one text in each row. Received: own_data, whose rows have two",
        ),
        (
            "tags.txt",
            "wa O\nwb B-X\n\n",
            "one task of .* Received: own_data, tagging",
        ),
    ],
)
def test_windows_are_of_single_texts(data, tmp_path, name, content, received):
    path = tmp_path / name
    path.write_text(content)
    files = {"train_file": str(path), "dev_file": str(path)}
    config = make_config(data, tmp_path / "model", **files)
    with pytest.raises(errors.ConfigError, match=received):
        preparation.prepare(config)


def test_rows_of_a_finished_run_are_read_as_its_models_learned(finished):
    config, results = finished

    def scored(**changes):
        changed = dataclasses.replace(config.data, eval_only=True, **changes)
        return finished_run.score(dataclasses.replace(config, data=changed))

    found = scored(test_file=config.data.dev_file, eval_batch_size=9)
    for split in ("dev", "test"):
        assert found["trials"][0][split] == pytest.approx(
            results["trials"][0]["dev"]
        )
    assert found["windows"] == {"stride": 8, "max_windows": 32}
    for changes, differs in (
        ({"long_texts": "cut"}, "windows=None .was {'stride': 8, "),
        ({"weigh_windows": True}, "windows.by_tokens=True .was None"),
    ):
        with pytest.raises(errors.ConfigError, match=differs):
            scored(**changes)
    config = dataclasses.replace(config, pooling="mean")
    with pytest.raises(errors.ConfigError, match="pooling='mean' .was 'cls'"):
        scored()
