"""Tests of training/saving.py: what is damaged, missing, or was not written."""

import contextlib
import pathlib
import resource

import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.training import loop, replicas, saving
from tests import helpers
from tests.training import engine_test


def make_engine(model_dir, **changes):
    run = helpers.run_config(model_dir, **changes)
    return engine_test.one_weight_engine(run)


def train(model_dir, last_step=8, **changes):
    changes = {"save_checkpoints_steps": 2, "keep_checkpoint_max": 3} | changes
    engine = make_engine(model_dir, **changes)
    loop.train(engine, last_step, "training", ("total_loss",))
    return engine


INDEX, DATA = "model.ckpt-8.index", "model.ckpt-8.data-00000-of-00001"


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (INDEX, pathlib.Path.unlink),
        (DATA, pathlib.Path.unlink),
        (INDEX, cut),
        (DATA, cut),
        (DATA, flip_a_bit),
    ],
)
def test_a_run_goes_on_from_the_newest_that_is_whole(tmp_path, name, damage):
    whole = train(tmp_path)
    damage(tmp_path / name)
    first_steps = []

    def dataset(size, step, shard):
        first_steps.append(step)
        return engine_test.numbers_dataset(size, step, shard)

    run = helpers.run_config(
        tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=3
    )
    engine = engine_test.one_weight_engine(run, dataset=dataset)
    with pytest.warns(match=f"or damaged: {tmp_path}/model.ckpt-8$"):
        loop.train(engine, 8, "training", ("total_loss",))
    assert first_steps == [6]
    assert float(engine.model.w) == float(whole.model.w) != 0
    # Nothing that was whole is gone, and what was not is there again.
    kept = saving.checkpoints_of(tmp_path)
    assert kept == [f"{tmp_path}/model.ckpt-{step}" for step in (8, 6, 4)]
    assert all(map(saving.is_whole, kept))


def test_the_list_of_checkpoints_may_be_lost(tmp_path):
    train(tmp_path, 6)
    (tmp_path / "checkpoint").unlink()
    engine = train(tmp_path)
    assert int(engine.global_step) == 8
    assert engine_test.steps(engine.run, "train") == [2, 4, 6, 8]


@pytest.mark.parametrize("content", [b"", b"\x94\xff"])
def test_a_damaged_list_of_checkpoints_is_named(tmp_path, content):
    (tmp_path / "checkpoint").write_bytes(content)
    with pytest.raises(errors.CheckpointError, match="read .*/checkpoint, wh"):
        saving.checkpoints_of(str(tmp_path))


def test_a_damaged_list_of_the_best_is_named(tmp_path):
    train(tmp_path, 6)
    (tmp_path / "best").mkdir()
    (tmp_path / "best/checkpoint").touch()
    with pytest.raises(errors.CheckpointError, match="without this file goes"):
        train(tmp_path)
    (tmp_path / "best/checkpoint").unlink()
    assert int(train(tmp_path).global_step) == 8


def test_none_that_is_whole_is_refused(tmp_path):
    train(tmp_path, keep_checkpoint_max=1)
    log = (tmp_path / "metrics.jsonl").read_text()
    cut(tmp_path / DATA)
    line = f"^None of the checkpoints in {tmp_path} is whole. Choose another "
    with pytest.raises(errors.ConfigError, match=line):
        train(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text() == log
    assert (tmp_path / INDEX).exists()


def test_a_run_that_was_killed_over_its_first_checkpoint_begins_anew(tmp_path):
    """TensorFlow opens the index by its name and writes it at the end."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    expected = train(whole)
    train(killed, 2, keep_checkpoint_max=1)
    (killed / "checkpoint").unlink()
    assert saving.is_under_way(str(killed))
    (killed / "model.ckpt-2.index").write_bytes(b"")
    assert not saving.is_under_way(str(killed))
    with pytest.warns(match=f"or damaged: {killed}/model.ckpt-2$"):
        engine = train(killed)
    assert engine_test.steps(engine.run, "train") == [2, 4, 6, 8]
    assert float(engine.model.w) == float(expected.model.w)


@contextlib.contextmanager
def full_disk():
    """No file can be larger than 20 bytes, which may be pytest's output."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_state_that_was_not_saved_is_told(tmp_path, is_async):
    checkpoints = saving.Checkpoints(
        make_engine(tmp_path, async_checkpoints=is_async)
    )
    line = f"^Cannot save step 0 in {tmp_path}: .*; File too large$"
    with full_disk(), pytest.raises(errors.TrainingError, match=line):
        checkpoints.save()
        checkpoints.finish()
        checkpoints.check_saved()


def test_a_run_ends_with_what_was_not_saved(tmp_path, monkeypatch):
    """However writing fails: what is not there at the end is missed."""
    sync = tf.train.CheckpointManager.sync

    def lose(manager):
        sync(manager)
        for path in tf.io.gfile.glob(f"{manager.latest_checkpoint}.data*"):
            tf.io.gfile.remove(path)

    monkeypatch.setattr(tf.train.CheckpointManager, "sync", lose)
    with pytest.raises(errors.TrainingError, match="Step 8 was not saved"):
        train(tmp_path)


def test_the_best_is_read_back(tmp_path, monkeypatch):
    checkpoints = saving.Checkpoints(make_engine(tmp_path))
    monkeypatch.setattr(saving, "is_whole", lambda prefix: False)
    with pytest.raises(errors.TrainingError, match="best/model.ckpt-0 cannot"):
        checkpoints.save_best({"disc_auc": 0.7})
    assert not (tmp_path / "best" / "eval_results.json").exists()


def test_no_kill_leaves_the_metrics_of_other_weights(tmp_path, monkeypatch):
    engine = make_engine(tmp_path)
    checkpoints = saving.Checkpoints(engine)
    checkpoints.save_best({"disc_auc": 0.7})
    assert not checkpoints.is_best("disc_auc", 0.7)

    def kill(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(saving.Checkpoints, "_read_back", kill)
    engine.global_step.assign(2)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save_best({"disc_auc": 0.8})
    assert (tmp_path / "best" / "model.ckpt-2.index").exists()
    assert checkpoints.is_best("disc_auc", 0.1)


def test_devices_of_another_host_save_here(tmp_path, monkeypatch):
    monkeypatch.setattr(replicas, "has_other_host", lambda run: True)
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = train(tmp_path / "whole", 6)
    train(tmp_path / "cut", 4)
    engine = train(tmp_path / "cut", 6)
    assert engine_test.steps(engine.run, "train") == [2, 4, 6]
    assert float(engine.model.w) == float(whole.model.w) != 0
    options = saving.Checkpoints(engine)._options
    assert options.experimental_io_device == "/job:localhost"


def test_all_checkpoints_may_be_kept(tmp_path):
    train(tmp_path, save_checkpoints_steps=1, keep_checkpoint_max=0)
    assert len(saving.checkpoints_of(tmp_path)) == 8
    # There is no way back.
    with pytest.raises(errors.ConfigError, match="is at step 8 .*, beyond 4, "):
        train(tmp_path, 4)
