"""Tests of tools/benchmarks/finetuning.py, at sizes that show no speed."""

import json
import math

import pytest

from electra_tf.finetuning import finetune
from electra_tf.finetuning.tasks import by_name
from electra_tf.text.tokenization import FullTokenizer
from electra_tf.text.vocabulary import Vocabulary, load_vocab
from tests import helpers
from tools.benchmarks import finetuning


@pytest.fixture
def data_dir(tmp_path):
    """MRPC with 12 rows, the first much longer than the others."""
    folder = tmp_path / "glue" / "MRPC"
    folder.mkdir(parents=True)
    rows = [("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")]
    for i in range(12):
        text = "wa wb " * (1 if i else 6)
        rows.append((str(i % 2), "1", "2", text, f"wc wd {i}"))
    lines = ["\t".join(row) + "\n" for row in rows]
    (folder / "train.tsv").write_text("".join(lines))
    return str(tmp_path / "glue")


@pytest.fixture
def flags(tmp_path, data_dir):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join(helpers.VOCAB) + "\n")
    return [
        f"--data-dir={data_dir}",
        f"--vocab-file={vocab_file}",
        f"--output={tmp_path / 'result.json'}",
        "--tiny",
        "--tasks=mrpc",
        "--batch-size=2",
        "--max-seq-length=32",
        "--num-warm-up-steps=1",
        "--num-steps=2",
        "--num-rounds=2",
    ]


class InThisProcess:
    """Stands for a training_workers.Worker, whose process takes seconds."""

    is_process = False

    def __init__(self, make, *args):
        self._training = getattr(finetuning, make.split(".")[1])(*args)
        self.close = lambda: None

    def __getattr__(self, name):
        return getattr(self._training, name)

    def __call__(self, num_steps):
        return self._training(num_steps)

    def ask(self, num_steps):
        self._training(num_steps)

    def seconds(self):
        return 1.0


@pytest.mark.dear
def test_contestants_are_timed_and_judged(flags, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(finetuning.training_workers, "Worker", InThisProcess)
    assert finetuning.main(flags) == 0
    found = json.loads((tmp_path / "result.json").read_text())
    mrpc = found["mrpc"]
    rates = {
        name: figures["examples_per_second"]
        for name, figures in mrpc["contestants"].items()
    }
    assert mrpc["ours_times_padded"] == pytest.approx(
        rates["ours"] / rates["padded"]
    )
    assert mrpc["ours_times_padded_cpu"] > 0
    # Both orders of each pair: [CLS] 12 + 3 [SEP]s and so on.
    assert mrpc["num_rows"] == 24
    assert mrpc["mean_length"] == pytest.approx((18 + 11 * 8) / 12)
    # Several lengths, but one trace, made in the warm-up.
    assert mrpc["num_traces_of_lengths"] == 0
    assert found["targets"] == {
        "mrpc.ours_times_padded": mrpc["ours_times_padded"] >= 2.5
    }
    shown = capsys.readouterr().err
    assert ">= 2.5" in shown
    page = (tmp_path / "result.md").read_text()
    assert "## mrpc\n\n|  | examples/s |" in page


def test_made_rows_are_read(tmp_path):
    vocab_file = finetuning.make_rows(str(tmp_path))
    vocabulary = Vocabulary(tuple(load_vocab(vocab_file)), True, True)
    tokenizer = FullTokenizer(vocabulary)
    mean_lengths = {}
    for name in ("mrpc", "sst"):
        task = by_name.get_task(name, tmp_path)
        features = task.features(
            task.read_examples("train")[:500], tokenizer, 128, True
        )
        assert not (features["input_ids"] == 1).any()
        mean_lengths[name] = features["input_mask"].sum(axis=-1).mean()
    assert mean_lengths == {
        "mrpc": pytest.approx(55, abs=2),
        "sst": pytest.approx(13, abs=1),
    }


def test_scores_of_both_ways(monkeypatch, tmp_path):
    def pretend(config, before_training):
        before_training()
        scores = [70.0, 72.0] if config.data.bucketed else [71.0, 75.0]
        assert config.data.task_names == ("mrpc",)
        assert config.num_trials == 2
        trials = [{"dev": {"accuracy": score}} for score in scores]
        return {"main_metric": "accuracy", "trials": trials}

    monkeypatch.setattr(finetune, "finetune", pretend)
    args = finetuning.make_parser().parse_args(
        [
            f"--data-dir={tmp_path}",
            "--init-checkpoint=model",
            "--scores-task=mrpc",
            "--num-trials=2",
        ]
    )
    assert finetuning.measure_scores(args) == {
        "bucketed": 71.0,
        "padded": 73.0,
        "difference": -2.0,
        # Variances 2 and 8, halved, added: 5.
        "difference_in_standard_errors": pytest.approx(2 / math.sqrt(5)),
        "bucketed_by_seed": [70.0, 72.0],
        "padded_by_seed": [71.0, 75.0],
    }


@pytest.mark.parametrize(
    ("first", "second", "errors"),
    [
        ([1.0, 1.0], [1.0, 1.0], 0.0),
        ([1.0, 1.0], [2.0, 2.0], math.inf),
        ([0.0, 2.0], [2.0, 4.0], math.sqrt(2)),
    ],
)
def test_differences_in_standard_errors(first, second, errors):
    found = finetuning.in_standard_errors(first, second)
    assert found == pytest.approx(errors)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "Expected --vocab-file or --init-checkpoint"),
        (["--scores-task=mrpc"], "--scores-task needs --init-checkpoint"),
        (
            ["--scores-task=mrpc", "--init-checkpoint=x", "--num-trials=1"],
            "--num-trials must be at least 2",
        ),
        (["--vocab-file=none.txt"], "none.txt"),
    ],
)
def test_mistakes_are_one_line(more, message, data_dir, capsys):
    assert finetuning.main([f"--data-dir={data_dir}", *more]) == 1
    # Behind lines of progress.
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("benchmark_finetuning: error: ")
    assert message in line
