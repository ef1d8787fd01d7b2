"""What a user gets who names a file that is not there, at every door."""

import pytest

from electra_tf.command_line import verbs
from tests import helpers, warm

ABSENT = {
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
    assert set(ABSENT) == set(verbs.VERBS)


# Mistakes beyond a name: the command line, and a word of what is said.
SMALL = "pretrain --gin_file=gin/small.gin"
MINE = "finetune --model_dir=mine --train_file=a.tsv"
WRONG = [
    ("pretrain", "Expected --gin_file, such as --gin_file=gin/small.gin"),
    ("pretrain --gin_file=gin/pretraining.gin", "configuration must set "),
    (
        f"{SMALL} --model_dir=new --num_gpus=-1",
        "--num_gpus must be 0 or more. Received: num_gpus=-1",
    ),
    ("pretrain --gin_file=gin/smal.gin", "mean gin/small.gin?"),
    ("pretrain --model_dri=a", "mean --model-dir? (see --help)"),
    (
        "finetune --model_dir=m",
        "Expected --gin_file, or --init_checkpoint, --m",
    ),
    (
        f"{MINE} --init_checkpoint=m --folds=5 --dev_file=b",
        "--dev_file must be empty with --folds",
    ),
    (
        f"{MINE} --init_checkpoint=m --dev_fraction=0.1 --batch_size=0",
        "--batch_size must be positive. Received: train_batch_size=0",
    ),
    (
        "finetune --eval_only --test_file=a.tsv --model_dir=mine",
        "Expected a finished fine-tuning run in mine",
    ),
    (
        "finetune --eval_only --model_dir=mine --init_checkpoint=other",
        "Expected no --init_checkpoint with --eval_only",
    ),
    (f"{SMALL} --hparams={{}}", "either --gin_file or --hparams. Received: bo"),
    ("pretrain --hparams={} --data_dir=data", "Received: no --model_name"),
    (f"{SMALL} --model_dir=m --batch_size=0", "--batch_size must be positive"),
    (f"{SMALL} --model_dir=m --seed=-1", "--seed must be 0 or more. Received:"),
    (  # The original's spelling, and its defaults.
        "pretrain --data-dir nowhere --model-name m",
        "nowhere/vocab.txt, found none. Build one with: electra-tf build-vocab "
        "--corpus_dir=CORPUS --vocab_file=nowhere/vocab.txt --vocab_size=30522",
    ),
    (
        f"{SMALL} --model_dir=m --gin_param=RunConfig.dtype_policy='half'",
        "(flag: --gin_param=RunConfig.dtype_policy=VALUE)",
    ),
    ("convert --inptu=a", "--output-format (see --help)"),
    ("plan --gin_file=gin/small.gin --num_devices=3", "--num-devices"),
    ("check-data", "--data and --vocab-file"),
    ("check-data --gin-param=x=1", "--gin-file with --gin-param"),
    (
        f"build-vocab --corpus-dir={helpers.ROOT}/gin --vocab-file=gs://a/v",
        "--vocab-file in",
    ),
]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        *((f"{verb} {flags}", "gone") for verb, flags in ABSENT.items()),
        *WRONG,
    ],
)
def test_a_mistake_ends_in_one_line_and_leaves_nothing(tmp_path, flags, word):
    word = "no-such-flag" if "no-such-flag" in flags else word
    result = warm.execute("-m", "electra_tf", *flags.split(), cwd=tmp_path)
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1 + last.endswith("(see --help)")
    assert last.startswith(f"electra-tf {flags.split()[0]}: error: ")
    assert word in last
    assert word == "gone" or result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr + result.stdout
    assert list(tmp_path.iterdir()) == []
