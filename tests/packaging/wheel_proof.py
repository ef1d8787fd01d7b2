"""The wheel by itself, in an empty directory: from text to an answer.

Its own environment has the package from the wheel and all else from the one
that runs the tests. Not in `make test`, as eight commands import TensorFlow:
`make test-wheel`.
"""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

from electra_tf import __version__
from tests import helpers
from tests.packaging import wheels

WORDS = ["red", "green", "blue", "black", "white", "pink", "gray", "gold"]
SENTENCES = [
    " ".join(WORDS[number * 7 // 8**i % 8] for i in range(3))
    for number in range(120)
]
# gin/small.gin is the package's own.
TINY = """
include 'gin/small.gin'
EncoderConfig.num_hidden_layers = 1
EncoderConfig.hidden_size = 16
EncoderConfig.intermediate_size = 32
EncoderConfig.num_attention_heads = 2
EncoderConfig.embedding_size = 8
EncoderConfig.max_position_embeddings = 16
ElectraConfig.max_seq_length = 16
ElectraConfig.generator_hidden_size = 0.5
EncoderConfig.vocab_size = {vocab_size}
PretrainingDataConfig.train_files = 'tfrecords/*tfrecord*'
PretrainingDataConfig.vocab_file = 'vocab.txt'
PretrainingDataConfig.train_batch_size = 4
RunConfig.num_train_steps = 20
RunConfig.model_dir = 'pretrained'
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> pathlib.Path:
    """The programs of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    wheel = wheels.build(folder)
    home = folder / "venv"
    python = home / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", home], check=True
    )
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", python, "install"),
            *("--quiet", "--no-deps", "--no-index", wheel),
        ],
        check=True,
    )
    (site,) = home.glob("lib/python*/site-packages")
    others = sysconfig.get_paths()["purelib"]
    # A plain line: no editable install of the other environment is followed.
    (site / "others.pth").write_text(f"{others}\n")
    return home / "bin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """An empty directory, but for a corpus and labelled rows."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "corpus").mkdir()
    (folder / "corpus" / "all.txt").write_text("\n".join(SENTENCES))
    rows = [(line, "red" if "red" in line else "none") for line in SENTENCES]
    helpers.write_tsv(folder / "train.tsv", rows[:40])
    helpers.write_tsv(folder / "dev.tsv", rows[40:60])
    return folder


@pytest.fixture(scope="module")
def run(environment, folder):
    """Runs a program of the environment there; returns what it prints."""

    def run(program, *args):
        env = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
        result = subprocess.run(
            [environment / program, *args],
            cwd=folder,
            env=env | {"CUDA_VISIBLE_DEVICES": "-1"},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_is_the_one_that_is_run(run, environment):
    where = run("python", "-c", "import electra_tf as e; print(e.__file__)")
    assert where.startswith(str(environment.parent))
    assert run("electra-tf", "--help") == run(
        "python", "-m", "electra_tf", "--help"
    )


def test_from_text_to_an_answer(run, folder):
    run(
        *("electra-tf", "build-vocab", "--corpus-dir=corpus"),
        *("--vocab-file=vocab.txt", "--vocab-size=60"),
    )
    run(
        *("electra-tf", "build-data", "--corpus-dir=corpus"),
        *("--vocab-file=vocab.txt", "--output-dir=tfrecords"),
        *("--max-seq-length=16", "--num-out-files=2", "--num-processes=2"),
    )
    vocab_size = len((folder / "vocab.txt").read_text().split())
    (folder / "tiny.gin").write_text(TINY.format(vocab_size=vocab_size))
    assert run(
        *("python", "-m", "electra_tf.run_pretraining"), "--gin_file=tiny.gin"
    ).endswith("pre-trained model: pretrained\n")
    (line,) = (folder / "pretrained" / "runs.jsonl").read_text().splitlines()
    assert json.loads(line)["versions"]["electra_tf"] == __version__
    run(
        *("electra-tf", "convert", "--input=pretrained", "--output=hf"),
        "--output-format=huggingface",
    )
    finetuned = run(
        *("electra-tf", "finetune", "--init_checkpoint=hf/discriminator"),
        *("--train_file=train.tsv", "--dev_file=dev.tsv"),
        *("--model_dir=finetuned", "--num_train_epochs=1"),
        "--max_seq_length=16",
    )
    assert finetuned.endswith(
        "fine-tuned model: finetuned\nreport: finetuned/report.html\n"
    )
    flags = ("--model_dir=finetuned", "--output=served")
    assert run("electra-tf", "export", *flags) == "exported served/1\n"
    answer = run(
        *("electra-tf", "predict", "--saved_model=served", "red green blue")
    )
    answer = json.loads(answer)
    assert answer["label"] in ("red", "none")
    assert 0.5 <= max(answer["scores"].values()) <= 1


def test_the_packages_own_files(run):
    assert "NVIDIA" in run(
        *("electra-tf", "plan", "--gin_file=gin/small.gin"), "--hardware=a100"
    )
    lines = run("electra-tf", "quickstart", "--dry-run").splitlines()
    assert len(lines) == 10
    script = lines[0].split()[1]
    assert script.endswith(
        "electra_tf/tools/quickstart/build_docstring_corpus.py"
    )
    assert os.path.isfile(script)
