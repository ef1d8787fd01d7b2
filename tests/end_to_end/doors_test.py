"""What a user gets who names a file that is not there, at every door."""

import pytest

from electra_tf.command_line import verbs
from tests import warm

FLAGS = {
    "quickstart": "--no-such-flag",
    "build-vocab": "--corpus_dir=gone --vocab_file=new.txt",
    "build-data": "--corpus-dir=gone --vocab-file=gone.txt --output-dir=new",
    "check-data": "gone",
    "plan": "--gin_file=gone.gin",
    "pretrain": "--gin_file=gone.gin --model_dir=new",
    "adapt": "--checkpoint=gone --corpus_dir=gone --model_dir=new",
    "finetune": "--init_checkpoint=gone --train_file=gone.tsv "
    "--dev_file=gone.tsv --model_dir=new",
    "convert": "--input=gone --output=new --output-format=original",
    "export": "--model_dir=gone --output=new",
    "serve": "--model_base_path=gone",
    "predict": "--saved_model=gone text",
    "detect": "--checkpoint=gone text",
    "score": "--checkpoint=gone text",
    "flops": "--no-such-flag",
}


def test_every_verb_is_here():
    assert set(FLAGS) == set(verbs.VERBS)


@pytest.mark.parametrize("verb", FLAGS)
def test_a_mistake_ends_in_one_line_and_leaves_nothing(tmp_path, verb):
    command = ("-m", "electra_tf", verb, *FLAGS[verb].split())
    result = warm.execute(*command, cwd=tmp_path)
    assert result.returncode in (1, 2)
    lines = [x for x in result.stderr.splitlines() if "usage:" not in x]
    assert "error: " in lines[-1]
    assert any(name in lines[-1] for name in ("gone", "no-such-flag"))
    assert "Traceback" not in result.stderr + result.stdout
    assert list(tmp_path.iterdir()) == []
