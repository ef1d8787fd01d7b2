"""Tests of runs that go on from the step of another one, their trunk."""

import dataclasses
import pathlib

import pytest

from electra_tf import configs, errors, model_directory
from electra_tf.checkpoints import continuing
from electra_tf.command_line import launch
from electra_tf.training import optimization
from tests import helpers

DECAY = configs.OptimizerConfig(
    1e-3, schedule=configs.WARMUP_STABLE_DECAY, num_decay_steps=10
)


@pytest.fixture
def trunk(tmp_path):
    """The configuration of a run of 100 steps, and its record."""
    config = configs.PretrainingConfig(
        model=helpers.electra_config(),
        data=configs.PretrainingDataConfig("*.tfrecord", "vocab.txt"),
        optimizer=DECAY,
        run=helpers.run_config(
            tmp_path / "trunk",
            num_train_steps=100,
            dtype_policy="mixed_bfloat16",
            num_parallel_parts=2,
        ),
    )
    model_directory.write(config, "", [])
    (tmp_path / "trunk" / "model.ckpt-50.index").touch()
    model_directory.write_records_digest(config.run.model_dir, "abc")
    return config


def branch_of(trunk, num_train_steps=60, run=(), **changes):
    run = dataclasses.replace(
        trunk.run,
        model_dir=f"{trunk.run.model_dir}/../branch",
        num_train_steps=num_train_steps,
        **dict(run),
    )
    changes = {
        "run": run,
        "init_checkpoint": f"{trunk.run.model_dir}/model.ckpt-50",
        "keep_global_step": True,
    } | changes
    return dataclasses.replace(trunk, **changes)


def otherwise(config, digest="abc"):
    optimizer = optimization.AdamWeightDecay(
        config.optimizer, config.run.num_train_steps
    )
    return continuing._otherwise(config, optimizer, 50, digest)


def test_nothing_is_said_of_a_branch_at_the_beginning_of_its_decay(trunk):
    assert otherwise(branch_of(trunk)) == []
    # Nor where no run is known, or none is gone on with.
    moved = branch_of(trunk, init_checkpoint="elsewhere")
    assert otherwise(moved, "other") == []
    again = branch_of(trunk, run={"seed": 4}, keep_global_step=False)
    assert model_directory.differences_from_trunk(again, "abc") == []


def test_a_branch_that_begins_within_its_decay_is_told_its_rate(trunk):
    assert otherwise(branch_of(trunk, 55)) == [
        "the learning rate goes on at 0.0005 (there 0.001)"
    ]


def test_other_settings_and_records_than_the_trunks_are_named(trunk):
    data = dataclasses.replace(trunk.data, train_batch_size=64)
    config = branch_of(
        trunk, run={"seed": 4, "dtype_policy": "float32"}, data=data
    )
    assert otherwise(config, "other") == [
        "goes on with other settings: data.train_batch_size=64 (there 128), "
        "run.dtype_policy='float32' (there 'mixed_bfloat16'), run.seed=4 "
        "(there 3), the records"
    ]


@pytest.mark.parametrize(
    ("temperature", "proportion", "num_warmup_steps", "names"),
    [
        (0.5, None, 0, "model.final_temperature"),
        (None, 0.1, 0, "optimizer.warmup_proportion"),
        (
            0.5,
            0.1,
            0,
            "model.final_temperature and optimizer.warmup_proportion",
        ),
        # No change, and not the longer of two.
        (1.0, 0.1, 10, None),
    ],
)
def test_another_length_is_named_where_the_trunk_has_followed_its_own(
    trunk, temperature, proportion, num_warmup_steps, names
):
    trunk = dataclasses.replace(
        trunk,
        model=helpers.electra_config(final_temperature=temperature),
        optimizer=dataclasses.replace(
            DECAY,
            warmup_proportion=proportion,
            num_warmup_steps=num_warmup_steps,
        ),
    )
    model_directory.write(trunk, "", [])
    expected = names and [
        "goes on with other settings: run.num_train_steps=60 (there 100, and "
        f"{names} with it)"
    ]
    assert otherwise(branch_of(trunk)) == (expected or [])
    assert otherwise(branch_of(trunk, 100)) == []


def test_a_branch_keeps_what_its_trunk_began_with(trunk):
    config = branch_of(
        trunk, run={"dtype_policy": "auto", "num_parallel_parts": 0}
    )
    settled, _ = launch._settle(config)
    assert settled.run.dtype_policy == "mixed_bfloat16"
    assert settled.run.num_parallel_parts == 2


def test_a_damaged_record_of_the_trunk_ends_in_one_line(trunk, tmp_path):
    (tmp_path / "trunk" / "config.json").write_text('{"class": ')
    with pytest.raises(ValueError, match="trunk/config.json"):
        launch._settle(branch_of(trunk))


def test_a_record_of_another_version_is_no_schedule(trunk, tmp_path):
    path = tmp_path / "trunk" / "config.json"
    path.write_text(path.read_text().replace("beta_1", "beta_one"))
    (line,) = otherwise(branch_of(trunk, 55))
    assert line == (
        "goes on with other settings: optimizer.beta_one=None (there 0.9)"
    )


def test_the_folder_of_a_path(trunk, tmp_path):
    folder = trunk.run.model_dir
    (tmp_path / "trunk" / "best").mkdir()
    for path in (folder, f"{folder}/best", f"{folder}/model.ckpt-50"):
        assert model_directory.folder_of(path) == folder
    for path in (f"{folder}/model.ckpt-60", tmp_path, f"{folder}/config.json"):
        assert model_directory.folder_of(path) is None


def test_a_decay_longer_than_the_training_ends_in_one_line():
    with pytest.raises(errors.ConfigError, match="training steps, 9. Received"):
        optimization.AdamWeightDecay(DECAY, 9)


@pytest.mark.parametrize(
    ("length", "num_decay_steps", "is_taken"),
    [
        (60, 10, True),
        (200, 20, True),
        (59, 10, False),
        (60, 11, False),
        (100, 51, False),
    ],
)
def test_a_run_decides_its_end_until_its_decay_begins(
    trunk, length, num_decay_steps, is_taken
):
    """Its last checkpoint is of step 50."""
    optimizer = dataclasses.replace(DECAY, num_decay_steps=num_decay_steps)
    run = dataclasses.replace(trunk.run, num_train_steps=length)
    changed = dataclasses.replace(trunk, run=run, optimizer=optimizer)
    if is_taken:
        model_directory.refuse_other_run(changed)
        return
    with pytest.raises(errors.ConfigError, match=r"holds another run's model"):
        model_directory.refuse_other_run(changed)


def test_a_run_in_its_decay_has_its_end(trunk):
    path = pathlib.Path(trunk.run.model_dir, "model.ckpt-91.index")
    path.touch()
    model_directory.refuse_other_run(trunk)
    run = dataclasses.replace(trunk.run, num_train_steps=200)
    with pytest.raises(errors.ConfigError, match=r"num_train_steps=200 \(was"):
        model_directory.refuse_other_run(dataclasses.replace(trunk, run=run))


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": configs.OptimizerConfig(1e-3)},
        {"optimizer": dataclasses.replace(DECAY, warmup_proportion=0.1)},
        {"model": helpers.electra_config(final_temperature=0.5)},
    ],
)
def test_where_all_depends_on_the_length_it_stays(trunk, changes):
    trunk = dataclasses.replace(trunk, **changes)
    model_directory.write(trunk, "", [])
    run = dataclasses.replace(trunk.run, num_train_steps=200)
    with pytest.raises(errors.ConfigError, match=r"num_train_steps=200 \(was"):
        model_directory.refuse_other_run(dataclasses.replace(trunk, run=run))
