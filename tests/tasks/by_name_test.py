import pytest

from electra_tf.model import heads
from electra_tf.tasks import by_name
from tests import helpers


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("mnli", heads.ClassificationHead),
        ("sts", heads.RegressionHead),
        ("squadv1", heads.QuestionAnsweringHead),
        ("squad", heads.QuestionAnsweringHead),
        ("newsqa", heads.QuestionAnsweringHead),
    ],
)
def test_get_task(name, head):
    task = by_name.get_task(name, "")
    assert task.name == name
    # Only SQuAD 2.0 knows questions without an answer.
    assert getattr(task, "v2", False) == (name == "squad")
    assert isinstance(task.make_head(helpers.encoder_config()), head)


@pytest.mark.parametrize("folder", ["finetuning_data/sst", "sst", "SST-2", "."])
def test_where_files_are_looked_for(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / "dev.tsv").write_text("sentence\tlabel\na\t1\n")
    assert by_name.get_task("sst", tmp_path).splits() == ["dev"]


def test_names_and_parts_of_speech_of_conll_2003(write, tmp_path):
    write("train.txt", "a X I-NP I-LOC\nb Y I-NP I-PER\n\n")
    write("valid.txt", "b Y I-NP O")
    ner = by_name.get_task("ner", tmp_path)
    assert ner.splits() == ["train", "dev"]
    assert ner.labels == ["O", "S-LOC", "S-PER"]
    assert len(ner.read_examples("dev")) == 1
    pos = by_name.get_task("pos", tmp_path)
    assert pos.labels == ["X", "Y"]
    assert pos.main_metric == "accuracy"
    assert by_name.get_task("korquad", "").is_korean


def test_unknown_task():
    with pytest.raises(ValueError, match="chunk, cola, .*Received: 'glue'"):
        by_name.get_task("glue", "")
    with pytest.raises(ValueError, match="Did you mean 'mnli'"):
        by_name.get_task("mnlI", "")


def test_a_task_of_the_package_keeps_its_name():
    with pytest.raises(ValueError, match="^Expected a new name. Received: 'r"):
        by_name.register("rte", lambda folder: None)
