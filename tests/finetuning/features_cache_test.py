"""Tests of finetuning/features_cache.py."""

import os
import pathlib

import numpy as np
import pytest

from electra_tf import configs
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import features_cache
from electra_tf.finetuning.tasks import own_data

TRAIN = "text\tlabel\na b c\tyes\nb\tno\nc\tyes\n"
LENGTH = 8


SOURCE_FILES = features_cache._source_files


@pytest.fixture(autouse=True)
def code(tmp_path_factory, monkeypatch):
    """A file that stands for the code, which may change between two calls."""
    path = tmp_path_factory.mktemp("code") / "task.py"
    path.write_text("one")
    monkeypatch.setattr(features_cache, "_source_files", lambda task: [path])
    return path


@pytest.fixture
def make_task(write):
    def make(train=TRAIN):
        return own_data.make_task("mood", {"train": write("train.tsv", train)})

    return make


def cached(task, tokenizer, folder, length=LENGTH, split="train"):
    return features_cache.features_of(
        task,
        split,
        task.read_examples("train"),
        tokenizer,
        length,
        str(folder),
    )


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        assert ours[name].dtype == values.dtype, name
        np.testing.assert_array_equal(ours[name], values, name)


def expected(task, tokenizer):
    return task.features(task.read_examples("train"), tokenizer, LENGTH)


def test_features_come_back_as_they_were(
    make_task, tokenizer, tmp_path, capsys, monkeypatch
):
    task = make_task()
    made = expected(task, tokenizer)
    assert_equal(cached(task, tokenizer, tmp_path / "new" / "cache"), made)
    assert capsys.readouterr().err == ""

    task = make_task()
    monkeypatch.setattr(type(task), "features", None)  # Not called.
    assert_equal(cached(task, tokenizer, tmp_path / "new" / "cache"), made)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("features of mood train: 3 rows of an earlier run")
    assert len(os.listdir(tmp_path / "new" / "cache")) == 1


def test_without_a_folder_nothing_is_kept(make_task, tokenizer, tmp_path):
    task = make_task()
    before = sorted(os.listdir(tmp_path))
    assert_equal(cached(task, tokenizer, ""), expected(task, tokenizer))
    assert sorted(os.listdir(tmp_path)) == before


class Renamed:
    """A tokenizer that differs in one setting."""

    def __init__(self, tokenizer, name, value):
        self._tokenizer, self._name, self._value = tokenizer, name, value

    def __getattr__(self, name):
        if name == self._name:
            return self._value
        return getattr(self._tokenizer, name)


def test_whatever_changes_features_changes_the_key(make_task, tokenizer):
    def key(task, tokenizer=tokenizer, split="train", length=LENGTH):
        examples = task.read_examples("train")
        return features_cache.key(task, split, examples, tokenizer, length)

    first = key(make_task())
    assert key(make_task()) == first
    option = make_task()
    option.double_unordered = True
    others = [
        key(make_task(TRAIN.replace("b\tno", "a\tno"))),
        key(make_task(TRAIN.replace("b\tno", "b\tmaybe"))),
        key(make_task(), length=LENGTH + 1),
        key(make_task(), split="dev"),
        key(make_task(), Renamed(tokenizer, "vocab", ("[PAD]", "a"))),
        key(make_task(), Renamed(tokenizer, "do_lower_case", False)),
        key(make_task(), Renamed(tokenizer, "strip_accents", None)),
        key(make_task(), Renamed(tokenizer, "text_cleaning", "kcelectra")),
        key(option),
    ]
    assert len({first, *others}) == 1 + len(others)


def test_other_code_makes_other_features(make_task, tokenizer, code):
    task = make_task()
    keys = set()
    for content in ("one", "two"):
        code.write_text(content)
        examples = task.read_examples("train")
        keys.add(features_cache.key(task, "dev", examples, tokenizer, LENGTH))
    assert len(keys) == 2


def test_the_code_is_the_package_and_the_task(make_task):
    class Own(own_data.OwnClassification):
        pass

    task = make_task()
    task.__class__ = Own
    names = {path.name for path in SOURCE_FILES(task)}
    assert {
        "features.py",
        "text_tasks.py",
        "text/tokenization.py",
        pathlib.Path(__file__).name,
    } <= names


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_a_damaged_file_is_made_anew(
    make_task, tokenizer, tmp_path, capsys, damage
):
    task = make_task()
    folder = tmp_path / "cache"
    made = cached(task, tokenizer, folder)
    (path,) = folder.iterdir()
    content = path.read_bytes()
    if damage == "other":
        np.savez(path, something=np.zeros(3))
    else:
        place = len(content) // 2
        changed = content[:place] + b"\0\xff" * 30 + content[place + 60 :]
        path.write_bytes(
            {"cut": content[:place], "changed": changed, "empty": b""}[damage]
        )
    capsys.readouterr()
    assert_equal(cached(task, tokenizer, folder), made)
    (line,) = capsys.readouterr().err.splitlines()
    assert "made anew" in line and "cannot be read" in line
    cached(task, tokenizer, folder)
    assert "3 rows of an earlier run" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_done_without(
    make_task, tokenizer, tmp_path, capsys
):
    task = make_task()
    (tmp_path / "file").write_text("")
    found = cached(task, tokenizer, tmp_path / "file" / "cache")
    assert_equal(found, expected(task, tokenizer))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("features of mood train: not kept in ")


def test_an_interrupted_write_leaves_nothing(
    make_task, tokenizer, tmp_path, monkeypatch
):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(features_cache.tf.io.gfile, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cached(make_task(), tokenizer, tmp_path / "cache")
    assert os.listdir(tmp_path / "cache") == []


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1, 300, 0], [0, 7, 0]], np.int32),
        np.array([[-1, 200]], np.int64),
        np.zeros((2, 3), np.int32),
        np.zeros((0, 3), np.int32),
        np.array([[0.5, 0.0]], np.float32),
        np.arange(12, dtype=np.int32).reshape(2, 2, 3),
        np.array([70_000, 3], np.int32),
    ],
)
def test_every_kind_of_feature_comes_back(tmp_path, values):
    path = str(tmp_path / "x.npz")
    features = {"input_ids": values}
    features_cache._write(path, features)
    assert_equal(features_cache._read(path), features)


def test_files_are_small(tmp_path):
    ids = np.zeros((1000, 512), np.int32)
    ids[:, :20] = 7
    features_cache._write(str(tmp_path / "x.npz"), {"input_ids": ids})
    assert (tmp_path / "x.npz").stat().st_size < 25_000


@pytest.mark.parametrize(
    ("chosen", "folder"),
    [("", "models/features_cache"), ("kept", "kept"), (None, "")],
)
def test_where_the_cache_is(chosen, folder):
    config = finetuning_configs.FinetuningConfig(
        init_checkpoint="pretrained",
        data=finetuning_configs.FinetuningDataConfig(
            task_name="mood",
            train_file="train.tsv",
            dev_file="dev.tsv",
            features_cache_dir=chosen,
        ),
        optimizer=configs.OptimizerConfig(learning_rate=1e-4),
        run=configs.RunConfig(model_dir="models/mood/"),
    )
    assert features_cache.folder(config) == folder
