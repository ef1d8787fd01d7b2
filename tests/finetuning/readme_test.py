"""The task that docs/guides/add-a-task.md adds works as it stands there."""

import sys

import pytest

from electra_tf import model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import finetune
from electra_tf.inference import predictor
from electra_tf.serving import saved_model
from electra_tf.tasks import by_name
from tests import docs_test, helpers

ROWS = ["yes / wa / wb", "no / wc / wd", "yes / we / wf", "no / wg / wh"]


@pytest.fixture
def code():
    """The block that is called rhymes.py."""
    block, *_ = docs_test.fences("docs/guides/add-a-task.md", "python")
    assert sum(bool(line) for line in block.splitlines()) <= 22
    return block


@pytest.mark.dear
def test_a_task_in_code(code, tmp_path, monkeypatch):
    (tmp_path / "rhymes.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(by_name, "_registered", {})
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}.txt").write_text("\n".join(ROWS) + "\n")
    helpers.write_pretrained(tmp_path / "pretrained")
    vocab_file = helpers.write_vocab(tmp_path)
    config = gin_files.load(
        finetuning_configs.FinetuningConfig,
        [],
        [
            "import rhymes",
            f"FinetuningConfig.init_checkpoint = '{tmp_path}/pretrained'",
            f"FinetuningDataConfig.vocab_file = '{vocab_file}'",
            "FinetuningDataConfig.max_seq_length = 8",
            "FinetuningDataConfig.num_train_epochs = 1",
            "FinetuningDataConfig.task_names = 'rhymes'",
            f"FinetuningDataConfig.data_dir = '{folder}'",
            f"RunConfig.model_dir = '{tmp_path}/model'",
        ],
    )
    (tmp_path / "model").mkdir()
    results = finetune.finetune(
        config, lambda: model_directory.write(config, "", [])
    )
    assert results["task"] == "rhymes"
    assert results["num_rows"] == {"train": 4, "dev": 4}
    assert results["baseline"]["dev"]["accuracy"] == 50.0
    path = saved_model.export(config.run.model_dir, str(tmp_path / "served"))
    (answer,) = predictor.ExportedModel(path).predict([[b"wa", b"wb"]])
    assert answer["label"] in ("no", "yes")
    assert list(answer["scores"]) == ["no", "yes"]
    del sys.modules["rhymes"]


def test_a_task_of_the_package_keeps_its_name():
    with pytest.raises(ValueError, match="^Expected a new name. Received: 'r"):
        by_name.register("rte", lambda folder: None)
