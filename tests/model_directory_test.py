"""Tests of model_directory.py."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest

from electra_tf import configs, errors, model_directory, validation
from electra_tf.finetuning import configs as finetuning_configs
from tests import helpers

pretraining_config = helpers.pretraining_config


@pytest.fixture
def trained(tmp_path):
    """The configuration of a run that has saved a checkpoint."""
    config = pretraining_config(tmp_path / "model")
    model_directory.write(config, "RunConfig.seed = 3\n", ["--gin_file=a.gin"])
    (tmp_path / "model" / "checkpoint").write_text("")
    return config


def assert_refused(config, message):
    with pytest.raises(errors.ConfigError, match=message):
        model_directory.refuse_other_run(config)


def test_writes_what_the_run_is_made_of(tmp_path):
    model_dir = tmp_path / "runs" / "model"
    config = pretraining_config(model_dir)
    model_directory.write(config, "RunConfig.seed = 3\n", ["--gin_file=a.gin"])
    files = ["config.json", "operative_config.gin", "runs.jsonl"]
    assert sorted(os.listdir(model_dir)) == files
    text = (model_dir / "operative_config.gin").read_text()
    assert text == "RunConfig.seed = 3\n"
    written = helpers.read_json(model_dir / "config.json")
    assert written["class"] == "PretrainingConfig"
    assert written["run"]["seed"] == 3
    assert written["model"]["encoder"]["hidden_size"] == 8
    (line,) = (model_dir / "runs.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["flags"] == ["--gin_file=a.gin"]
    assert record["argv"] == sys.argv
    assert record["versions"]["tensorflow"].startswith("2.")
    others = {"time", "python", "git_commit"}
    assert set(record) == {"argv", "flags", "versions"} | others
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=helpers.ROOT,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # A source tree without git has none.
    commit = record["git_commit"]
    assert (commit and commit.removesuffix("-dirty")) == (head or None)


@pytest.mark.parametrize("is_its_own", [True, False])
def test_a_package_has_no_commit_of_another_project(tmp_path, is_its_own):
    """In a checkout, or installed into a folder of one."""
    package = tmp_path / ("" if is_its_own else "venv") / "electra_tf"
    package.mkdir(parents=True)
    for name in ("errors.py", "files.py", "validation.py"):
        shutil.copy(helpers.ROOT / "electra_tf" / name, package)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for args in (["init"], ["add", "."], ["commit", "--message=a"]):
        subprocess.run([*git, *args], cwd=tmp_path, check=True)
    for changed in ("", "-dirty"):
        ask = "from electra_tf import files; print(files.git_commit())"
        env = helpers.environment(PYTHONPATH=str(package.parent))
        result = helpers.execute("-c", ask, cwd=package.parent, env=env)
        assert not result.returncode, result.stderr
        commit = result.stdout.strip()
        if is_its_own:
            assert len(commit.removesuffix("-dirty")) == 40
            assert commit.endswith("-dirty") == bool(changed)
        else:
            assert commit == "None"
        (package / "errors.py").write_text("# Changed.\n")


def test_refuses_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    config = pretraining_config(tmp_path / "file" / "model")
    with pytest.raises(
        errors.ConfigError, match="/file/model: Not a directory"
    ):
        model_directory.write(config, "", [])


def test_a_full_disk_is_named(trained):
    path = os.path.join(trained.run.model_dir, "runs.jsonl")
    os.remove(path)
    os.symlink("/dev/full", path)
    with pytest.raises(ValueError, match=r"/runs\.jsonl': No space left"):
        model_directory.write(trained, "", [])


def test_two_runs_at_once_in_one_model_directory_are_refused(tmp_path):
    """Their checkpoints would take turns, and their logs be mixed."""
    config = pretraining_config(tmp_path / "models" / "mine")
    model_directory.begin(config, "", [])
    with pytest.raises(errors.ConfigError, match="mine, to which another proc"):
        model_directory.begin(config, "", [])
    with pytest.raises(errors.ConfigError, match="1 entries but no config"):
        model_directory.begin(pretraining_config(tmp_path / "models"), "", [])


def test_takes_a_new_or_empty_directory(tmp_path):
    config = pretraining_config(tmp_path)
    model_directory.refuse_other_run(config)
    model_directory.refuse_other_run(pretraining_config(tmp_path / "new"))
    # What a kill over the first file leaves.
    (tmp_path / "config.json.tmp123").write_text("{")
    model_directory.refuse_other_run(config)
    (tmp_path / "thesis.tex").write_text("")
    assert_refused(config, f"{tmp_path} with 2 entries but no config.json: ")
    assert_refused(config, f"electra-tf adapt --checkpoint={tmp_path} goes on")


def test_takes_a_continuation_that_learns_the_same(trained):
    model_directory.refuse_other_run(trained)
    for part, changes in (
        ("run", {"save_checkpoints_steps": 7, "steps_per_loop": 7}),
        ("run", {"eval_steps": 7, "keep_checkpoint_max": 7}),
        ("run", {"distribution_strategy": "mirrored", "num_gpus": 2}),
        ("run", {"tpu": "local", "cluster_resolver": "slurm"}),
        ("run", {"micro_batch_size": 7, "keep_best_metric": "disc_auc"}),
        ("run", {"async_checkpoints": False, "stop_at_step": 7}),
        ("run", {"jit_compile": True}),
        ("data", {"eval_batch_size": 7, "num_eval_steps": 7}),
        ("data", {"heldout_files": "heldout", "train_files": "moved/*"}),
        ("data", {"vocab_file": "moved/vocab.txt"}),
    ):
        changed = pretraining_config(trained.run.model_dir, **{part: changes})
        assert changed != trained
        model_directory.refuse_other_run(changed)


def test_refuses_what_changes_learning_naming_the_values(trained):
    changed = pretraining_config(
        trained.run.model_dir,
        model={"mask_prob": 0.5},
        optimizer={"learning_rate": 2e-3},
        run={"eval_steps": 7, "seed": 4},
    )
    assert_refused(
        changed,
        "in: model.mask_prob=0.5 .was 0.25., optimizer.learning_rate=0.002 "
        r".was 0.001., run.seed=4 \(was 3\). Choose another --model_dir",
    )
    changed = pretraining_config(
        trained.run.model_dir, run={"dtype_policy": "mixed_bfloat16"}
    )
    assert_refused(changed, "in: run.dtype_policy='mixed_bfloat16' .was")


def test_refuses_a_run_of_another_kind(trained):
    assert_refused(
        finetuning_config(trained.run.model_dir),
        "holds a model of Pretr.*: .* as FinetuningConfig.init_checkpoint",
    )


@pytest.mark.parametrize(
    "left",
    [
        "model.ckpt-5.index",
        *("trial_2/checkpoint", "trial_2/results.json"),
        *("best/checkpoint", "trial_2/best/checkpoint"),
    ],
)
def test_another_run_may_begin_where_nothing_was_learned(tmp_path, left):
    config = pretraining_config(tmp_path / "model")
    model_directory.write(config, "", [])
    path = tmp_path / "model" / left
    path.parent.mkdir(parents=True, exist_ok=True)
    other = pretraining_config(tmp_path / "model", run={"seed": 4})
    assert model_directory.refuse_other_run(other) is None
    path.touch()
    assert_refused(other, "seed=4 .was 3")
    assert model_directory.refuse_other_run(config) is None


def test_the_folder_of_a_path(trained):
    folder = trained.run.model_dir
    os.mkdir(f"{folder}/best")
    with open(f"{folder}/model.ckpt-5.index", "w"):
        pass
    for path in (folder, f"{folder}/best", f"{folder}/model.ckpt-5"):
        assert model_directory.folder_of(path) == folder
    parent = os.path.dirname(folder)
    for path in (f"{folder}/model.ckpt-6", parent, f"{folder}/config.json"):
        assert model_directory.folder_of(path) is None


def test_refuses_a_config_that_is_none(tmp_path):
    for content, message in ((None, "with config.json at"), ("{", "Cannot re")):
        if content is not None:
            (tmp_path / "config.json").write_text(content)
        with pytest.raises(errors.ConfigError, match=message):
            model_directory.read_config(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("format"), "Received: None, of another"),
        (lambda r: r.update(format=2), "Received: 2, of another"),
        (lambda r: r.pop("class"), "config.json lacks class"),
        (lambda r: r.update(data=5), "data must be an object"),
        (lambda r: r["run"].pop("seed"), "other fields of RunConfig: seed"),
        (lambda r: r["data"].update(colour=1), "PretrainingDataConfig: colour"),
        (lambda r: r.pop("optimizer"), "PretrainingConfig: optimizer"),
    ],
)
def test_a_record_of_another_version_is_refused(trained, change, message):
    path = os.path.join(trained.run.model_dir, "config.json")
    record = helpers.read_json(path)
    change(record)
    with open(path, "w") as f:
        json.dump(record, f)
    with pytest.raises(errors.ConfigError, match=message) as caught:
        model_directory.read_pretraining_config(trained.run.model_dir)
    assert "\n" not in str(caught.value)
    with pytest.raises(errors.ConfigError):
        model_directory.refuse_other_run(trained)


def finetuning_config(model_dir, **changes):
    return finetuning_configs.FinetuningConfig(
        init_checkpoint="pretrained",
        data=finetuning_configs.FinetuningDataConfig(
            train_file="train.tsv", dev_file="dev.tsv"
        ),
        optimizer=configs.OptimizerConfig(None, layerwise_lr_decay=None),
        run=helpers.finetuning_run_config(model_dir),
        **changes,
    )


def test_files_of_fine_tuning_may_move(tmp_path):
    config = finetuning_config(tmp_path, expected_encoder={"hidden_size": 8})
    model_directory.write(config, "", [])
    (tmp_path / "checkpoint").write_text("")
    files = ("train_file", "dev_file", "test_file", "vocab_file")
    moved = {name: f"moved/{name}" for name in files}
    for changes in (
        {"data": dataclasses.replace(config.data, **moved)},
        {"init_checkpoint": "moved/pretrained"},
        # What the encoder was expected to be.
        {"expected_encoder": None},
        {"expected_encoder": {"num_hidden_layers": 2}},
    ):
        changed = dataclasses.replace(config, **changes)
        assert model_directory.refuse_other_run(changed) is None


def test_what_must_be_the_same():
    values = {"seed": 1, "run": {"tpu": "", "sizes": (3, 4)}, "rows": "a" * 64}
    before = json.loads(json.dumps(values | {"old": None}))
    validation.require_same(values, before, "m holds another run")
    before["run"] = {"tpu": "local", "sizes": [3]}
    before["rows"] = "b" * 64
    line = (
        r"^m holds another run. This run differs in: rows, run.sizes=\[3, 4\] "
        r"\(was \[3\]\), run.tpu='' \(was 'local'\). Choose another --model_dir"
    )
    with pytest.raises(errors.ConfigError, match=line):
        validation.require_same(
            values, before, "m holds another run", ["run.t"]
        )
    validation.require_same(values, before, "m", ["run", "rows"])
    many = dict.fromkeys("abcdefg", 1)
    with pytest.raises(errors.ConfigError, match=r"e=1 \(was None\) and 2 mo"):
        validation.require_same(many, {}, "m holds another run")
