import pytest

from electra_tf import configs
from electra_tf.finetuning import heads, tasks

ENCODER = configs.EncoderConfig(
    vocab_size=24,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=8,
)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("mnli", heads.ClassificationHead),
        ("sts", heads.RegressionHead),
        ("squad", heads.QuestionAnsweringHead),
        ("newsqa", heads.QuestionAnsweringHead),
    ],
)
def test_get_task(name, head):
    task = tasks.get_task(name, "")
    assert task.name == name
    assert isinstance(task.make_head(ENCODER), head)


def test_squad_2_knows_questions_without_an_answer():
    assert tasks.get_task("squad", "").v2
    assert not tasks.get_task("squadv1", "").v2


def test_chunk_reads_its_folder(write, tmp_path):
    write("train.txt", "a B-X\n\n")
    task = tasks.get_task("chunk", tmp_path)
    assert task.labels == ["S-X"]
    assert task.make_head(ENCODER).num_labels == 1


def test_unknown_task():
    with pytest.raises(ValueError, match="chunk, cola, .*Received: 'glue'"):
        tasks.get_task("glue", "")
