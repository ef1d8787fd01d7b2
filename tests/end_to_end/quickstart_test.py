"""The quickstart's commands, from a few texts to an answer."""

import json

import pytest

from tests import helpers, warm

WORDS = ["red", "green", "blue", "black", "white", "pink", "gray", "gold"]
NUM_SENTENCES = 120

PRETRAINING = (
    helpers.GIN
    + """
EncoderConfig.vocab_size = {vocab_size}
EncoderConfig.max_position_embeddings = 16
ElectraConfig.max_seq_length = 16
PretrainingDataConfig.train_files = 'tfrecords/*tfrecord*'
PretrainingDataConfig.heldout_files = 'tfrecords/*-0-of-2'
PretrainingDataConfig.train_batch_size = 4
PretrainingDataConfig.eval_batch_size = 4
RunConfig.model_dir = 'pretrained'
"""
)


def sentence(number):
    """Three words that follow from the number."""
    return " ".join(WORDS[number // 8**i % 8] for i in range(3))


def succeed(folder, *args):
    result = warm.execute(*args, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result


def tool(folder, name, *flags):
    return succeed(folder, helpers.ROOT / "tools" / f"{name}.py", *flags)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus of three documents, and a labelled set."""
    folder = tmp_path_factory.mktemp("quickstart")
    (folder / "corpus").mkdir()
    lines = [sentence(n * 7) for n in range(NUM_SENTENCES)]
    for i in range(3):
        (folder / "corpus" / f"{i}.txt").write_text("\n".join(lines[i::3]))
    rows = [(line, "red" if "red" in line else "none") for line in lines]
    helpers.write_tsv(folder / "train.tsv", rows[:40])
    helpers.write_tsv(folder / "dev.tsv", rows[40:60])
    return folder


@pytest.mark.dear
def test_quickstart(folder):
    flags = ("--corpus_dir=corpus", "--vocab_file=vocab.txt")
    tool(folder, "build_vocab", *flags, "--vocab_size=60")
    vocab = (folder / "vocab.txt").read_text().split()
    assert {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red"} <= set(vocab)

    flags += ("--output-dir=tfrecords", "--max-seq-length=16")
    tool(folder, "build_pretraining_dataset", *flags, "--num-out-files=2")

    text = PRETRAINING.format(vocab_size=len(vocab))
    (folder / "pretraining.gin").write_text(text)
    pretrained = succeed(
        folder, "-m", "electra_tf.run_pretraining", "--gin_file=pretraining.gin"
    )
    assert pretrained.stdout.endswith("pre-trained model: pretrained\n")

    finetuned = succeed(
        *(folder, "-m", "electra_tf", "finetune", "--num_train_epochs=1"),
        *("--train_file=train.tsv", "--dev_file=dev.tsv", "--batch_size=4"),
        *("--init_checkpoint=pretrained", "--model_dir=finetuned"),
        "--max_seq_length=16",
    )
    assert finetuned.stdout.endswith(
        "fine-tuned model: finetuned\nreport: finetuned/report.html\n"
    )

    flags = ("--model_dir=finetuned", "--output=exported")
    exported = tool(folder, "export_saved_model", *flags)
    assert exported.stdout == "exported exported/1\n"

    flags = ("predict", "--saved_model=exported/1", "red green", "pink gold")
    answer = succeed(folder, "-m", "electra_tf", *flags)
    lines = list(map(json.loads, answer.stdout.splitlines()))
    assert len(lines) == 2
    for line in lines:
        assert line["label"] in ("none", "red")
        assert 0.5 <= max(line["scores"].values()) <= 1
