"""Tests of gin/finetune: every file can be used as it is."""

import pathlib

import gin
import pytest

from electra_tf import configs
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.tasks import by_name
from tests import helpers

GIN = helpers.ROOT / "gin" / "finetune"
# Included by the others.
_PARTS = ("original", "question_answering", "korean")
NAMES = sorted(
    path.stem for path in GIN.glob("*.gin") if path.stem not in _PARTS
)
# What the command line has to add.
_PARAMS = {
    "own_data": [
        "FinetuningConfig.init_checkpoint = 'model'",
        "FinetuningDataConfig.train_file = 'train.tsv'",
        "FinetuningDataConfig.dev_file = 'dev.tsv'",
        "RunConfig.model_dir = 'mine'",
    ]
}


def load(name):
    return gin_files.load(
        finetuning_configs.FinetuningConfig,
        [str(GIN / f"{name}.gin")],
        _PARAMS.get(name, ()),
    )


@pytest.mark.parametrize("name", NAMES)
def test_loads_and_parses_back(name, tmp_path):
    config = load(name)
    written = tmp_path / "operative_config.gin"
    written.write_text(gin.operative_config_str())
    assert (
        gin_files.load(finetuning_configs.FinetuningConfig, [str(written)])
        == config
    )
    opening = pathlib.Path(GIN / f"{name}.gin").read_text()
    assert f"run_finetuning --gin_file=gin/finetune/{name}.gin" in opening
    for task_name in config.data.task_names:
        assert task_name in by_name.TASK_NAMES


def test_there_is_one_for_every_task():
    assert set(by_name.TASK_NAMES) <= set(NAMES)


def test_defaults_are_those_of_the_original():
    epochs = {name: load(name).data.num_train_epochs for name in NAMES}
    assert epochs["rte"] == epochs["sts"] == 10.0
    assert epochs["squad"] == epochs["squadv1"] == 2.0
    assert epochs["naturalqs"] == 3.0
    assert epochs["mnli"] == epochs["cola"] == epochs["chunk"] == 3.0
    squad = load("squad")
    assert squad.data.max_seq_length == 512
    assert squad.question_answering == configs.QuestionAnsweringConfig()
    assert load("mrpc").optimizer.warmup_proportion == 0.1
    assert load("mrpc").optimizer.learning_rate is None
    assert load("mrpc").recipe == "released"
    # No tasks of the released code.
    for name in ("own_data", "ner", "pos", "wnli"):
        assert load(name).recipe == "paper"


def test_a_run_without_the_file_has_the_defaults_of_the_file(tmp_path):
    mine = tmp_path / "mine.gin"
    mine.write_text("\n".join(_PARAMS["own_data"]))
    with_file, with_another, without = (
        gin_files.load(finetuning_configs.FinetuningConfig, files, params)
        for files, params in (
            ([str(GIN.parent / "finetuning.gin")], _PARAMS["own_data"]),
            ([str(mine)], ()),
            ([], _PARAMS["own_data"]),
        )
    )
    assert with_another == with_file
    assert without == with_file
