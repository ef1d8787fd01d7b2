"""Tests of the tools behind docs/results.md."""

import csv
import json
import os
import re
import shutil
import subprocess

import build_results_data
import pytest
import results_figures
import results_pretraining

from electra_tf import configs, model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from tests import helpers

SENTENCES = "A cat sat on a mat. Then it went. It saw 3.5 mice."


@pytest.fixture
def data_dir(tmp_path):
    """All sets with a row or two each; what is scored says SECRET."""
    folder = tmp_path / "data"

    def write(name, *lines):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    pair = "id\tone\ttwo\tlabel"
    write("glue/CoLA/train.tsv", "gj04\t1\t\tIt went.")
    write("glue/CoLA/dev.tsv", "gj04\t1\t\tSECRET")
    mrpc = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    write("glue/MRPC/train.tsv", f"\ufeff{mrpc}", '1\t2\t3\tA "cat .\tB')
    write("glue/MRPC/dev.tsv", mrpc, "1\t2\t3\tSECRET\tB")
    write("glue/RTE/train.tsv", pair, f"0\t{SENTENCES}\tA cat.\tentailment")
    write("glue/RTE/dev.tsv", pair, "0\tSECRET\tA cat.\tentailment")
    write(
        "glue/SST-2/train.tsv",
        "sentence\tlabel",
        "a b c d e f \t1",
        "z a b c d e f g\t1",
        "a b\t0",
    )
    write("glue/SST-2/dev.tsv", "sentence\tlabel", "SECRET\t1")
    sts = "\t".join("abcdefghij")
    write("glue/STS-B/train.tsv", sts, "\t".join("0123456") + "\tx\ty\t5.0")
    write("glue/STS-B/dev.tsv", sts, "\t".join("0123456") + "\tSECRET\ty\t5.0")
    for split in ("valid", "test"):
        write(f"wikitext-2/{split}.txt", " = A = ", " A @-@ b <unk> c . ")
    write("conll2003/train.txt", "EU B-ORG", "went O", "", "It O")
    for split in ("valid", "test"):
        write(f"conll2003/{split}.txt", "SECRET O")
    articles = [
        {
            "title": str(number),
            "paragraphs": [
                {
                    "context": "SECRET" if number % 4 == 0 else "It  went.",
                    "qas": [{"id": str(number), "question": f"Q{number}?"}],
                }
            ],
        }
        for number in range(6)
    ]
    write("squad/xquad.en.json", json.dumps({"data": articles}))
    hate = "title\tcomment\tbias\thate"
    write("korean/hate-speech.train.tsv", hate, '"가 ""나"""\t다\tno\tno')
    write("korean/hate-speech.val.tsv", hate, "SECRET\t다\tno\tno")
    sts = "genre\tfile\tyear\tid\tscore\tsentence1\tsentence2"
    write("korean/korsts.train.tsv", sts, "a\tb\tc\td\t5.0\t가\t나")
    for split in ("dev", "test"):
        write(f"korean/korsts.{split}.tsv", sts, "a\tb\tc\td\t5\tSECRET\t나")
    return folder


def test_texts_are_those_of_training_splits(data_dir, tmp_path, capsys):
    output = tmp_path / "out"
    build_results_data.build(data_dir, output)
    assert "cola.txt: 1 lines" in capsys.readouterr().out
    english = output / "english" / "corpus"
    texts = {path.stem: path.read_text() for path in english.iterdir()}
    assert texts == {
        "cola": "It went.\n",
        "mrpc": 'A "cat .\nB\n',
        # One sentence a line.
        "rte": "A cat sat on a mat.\nThen it went.\nIt saw 3.5 mice.\nA cat.\n",
        # No part of a longer phrase, nor one of a few words.
        "sst": "z a b c d e f g\n",
        "sts": "x\ny\n",
        "ner": "EU went\nIt\n",
        "wikitext_valid": "A-b c .\n",
        "wikitext_test": "A-b c .\n",
        # Articles 0 and 4 are scored.
        "xquad": "".join(f"It went.\nQ{n}?\n" for n in (1, 2, 3, 5)),
    }
    korean = output / "korean" / "corpus"
    assert (korean / "hate_speech.txt").read_text() == '가 "나"\n다\n'
    assert (korean / "korsts.txt").read_text() == "가\n나\n"
    tasks = output / "finetuning_data"
    assert sorted(path.name for path in tasks.iterdir()) == sorted(
        TASKS.split()
    )
    dev = json.loads((tasks / "squadv1" / "dev.json").read_text())
    assert [article["title"] for article in dev["data"]] == ["0", "4"]
    assert (tasks / "ner" / "dev.txt").read_text() == "SECRET O\n"


def test_a_missing_set_is_one_line(data_dir, tmp_path):
    shutil.rmtree(data_dir / "conll2003")
    with pytest.raises(OSError, match=r"conll2003/train\.txt"):
        build_results_data.build(data_dir, tmp_path / "out")


@pytest.fixture
def fields_of_usual_size():
    """What is read of one's own rows makes csv's limit larger, for good."""
    before = csv.field_size_limit(131_072)
    yield
    csv.field_size_limit(before)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("squad/xquad.en.json", b"{", "SQuAD's layout.*xquad.en.json"),
        ("squad/xquad.en.json", b'{"data": [{}]}', "SQuAD's layout.*xquad"),
        ("wikitext-2/test.txt", b"\xff\n", "Cannot read .*test.txt"),
        ("conll2003/train.txt", b"\xff O\n", "Cannot read .*train.txt"),
        ("glue/STS-B/train.tsv", b"a\n\xff\n", "Cannot read .*train.tsv"),
        (
            "korean/hate-speech.train.tsv",
            b"title\tcomment\n" + b'"' + 200_000 * b"a" + b"\tb\n",
            "Expected a title as in CSV.*hate-speech.train.tsv",
        ),
    ],
)
def test_a_damaged_set_is_named(
    data_dir, tmp_path, name, content, message, fields_of_usual_size
):
    (data_dir / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        build_results_data.build(data_dir, tmp_path / "out")


def test_a_missing_column_is_named(data_dir, tmp_path):
    (data_dir / "glue" / "MRPC" / "train.tsv").write_text("a\tb\nc\td\n")
    with pytest.raises(ValueError, match=r"at least 5 .*train\.tsv, row 2,"):
        build_results_data.build(data_dir, tmp_path / "out")


GIN = helpers.ROOT / "gin"
TASKS = "cola mrpc rte sst sts ner squadv1 hate_speech_ko korsts"


@pytest.mark.parametrize("language", ["english", "korean"])
def test_pretraining_files_load(language):
    config = gin_files.load(
        configs.PretrainingConfig, [str(GIN / "results" / f"{language}.gin")]
    )
    assert config.model.encoder.hidden_size == 128
    assert config.run.model_dir == f"build/results/{language}/pretrain"
    assert config.data.vocab_file == f"build/results/{language}/vocab.txt"


@pytest.mark.parametrize("task", TASKS.split())
def test_every_task_takes_the_settings_of_the_results(task):
    config = gin_files.load(
        finetuning_configs.FinetuningConfig,
        [
            str(GIN / "finetune" / f"{task}.gin"),
            str(GIN / "results" / "finetuning.gin"),
        ],
        ["FinetuningDataConfig.data_dir = ''"] if "ko" in task else [],
    )
    assert config.num_trials == 3
    assert config.data.max_seq_length == 128
    assert config.optimizer.learning_rate == 5e-4
    script = (helpers.ROOT / "tools/experiments/run_results.sh").read_text()
    assert task in script


# --- Runs -> figures -> tables ------------------------------------------------


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def write_start(results_dir, task, start, scores, **changes):
    """The model directory of a start, as run_finetuning leaves it."""
    folder = results_dir / "runs" / task / start
    decay = 0.8 if start == "pretrained_decay" else 0.0
    config = {"optimizer": {"layerwise_lr_decay": decay}}
    write(folder / "config.json", config)
    time = f"2026-11-21T{10 + ['rte', 'wnli'].index(task)}:00:00+0000"
    write(folder / "runs.jsonl", {"time": time, "git_commit": f"{task:x<40}"})
    recipe = {"learning_rate": 5e-4, "num_train_epochs": 3.0}
    found = {
        "from_scratch": start == "from_scratch",
        "task": task,
        "main_metric": "accuracy",
        "num_rows": {"train": 2490, "dev": 277, "test": 3000},
        "trials": [
            recipe | {"trial": number, "dev": {"accuracy": score}}
            for number, score in enumerate(scores, 1)
        ],
        "degenerate_trials": [],
        "replaced_trials": [],
        "baseline": {"name": "majority", "dev": {"accuracy": 52.7}},
    }
    write(folder / "results.json", found | changes)
    return folder / "results.json"


@pytest.fixture
def results_dir(tmp_path):
    """What run_results.sh leaves of two models and two tasks."""
    for model in results_pretraining.MODELS:
        run = results_pretraining.run_of(model)
        folder = tmp_path / model / "pretrain"
        write(folder / "config.json", model_directory.as_dict(run.config))
        steps = run.config.run.num_train_steps
        metrics = {"disc_auc": 0.625, "masked_lm_accuracy": 0.125}
        lines = [
            {"step": step, "split": split, "masked_lm_loss": 7.0} | metrics
            for step in (50, steps)
            for split in ("train", "heldout")
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write(folder / "metrics.jsonl", text)
        last = {"step": steps, "disc_auc": 0.75, "masked_lm_accuracy": 0.25}
        write(folder / "eval_results.json", last)
        write(folder / "runs.jsonl", {"git_commit": "0123456789-dirty"})
        totals = {"tokens": 4_000_000}
        write(tmp_path / model / "tfrecords/manifest.json", {"totals": totals})
    write(tmp_path / "english" / "pretrain.cost.json", {"cpu_seconds": 90.0})
    for task, mean in (("rte", 61.0), ("wnli", 56.5)):
        write_start(tmp_path, task, "from_scratch", (54.25, 55.0, 55.75))
        write_start(tmp_path, task, "pretrained", (mean - 1, mean, mean + 1))
        write_start(tmp_path, task, "pretrained_decay", (56.0, 58.0, 60.0))
    return tmp_path


def cells(table):
    return [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in table.splitlines()
    ]


def test_a_table_of_all_starts(results_dir):
    figures = results_figures.collect(results_dir)
    of_scratch = figures["rows"][0]["starts"]["from_scratch"]
    assert of_scratch["num_trials"] == 3
    assert of_scratch["learning_rate"] == 5e-4
    tables = results_figures.blocks(figures)
    start = ["dev", "277", "accuracy", "52.7", "55.0 +- 0.8"]
    assert cells(tables["results"])[2:] == [
        ["rte", *start, "61.0 +- 1.0", "**+6.0**", "58.0 +- 2.0"],
        # Less than both standard deviations together.
        ["wnli", *start, "56.5 +- 1.0", "+1.5", "58.0 +- 2.0"],
    ]
    lines = tables["results"].splitlines()
    assert lines[0].startswith("| task | split | rows | metric   | baseline |")
    assert lines[1].startswith("| ---- | ----- | ---- | -------- | -------- |")
    assert len({len(line) for line in lines}) == 1
    assert tables["results-commits"] == (
        "Fine-tuning at commits rtexxxx to wnlixxx, pre-training at commit "
        "0123456-dirty."
    )


def test_trials_that_say_the_same_of_every_row(results_dir):
    """No correlation counts as 0, and a trial that was repeated not at all."""
    scores = (None, 30.0, 60.0)
    write_start(results_dir, "rte", "pretrained", scores, replaced_trials=[3])
    row, _ = results_figures.collect(results_dir)["rows"]
    assert row["starts"]["pretrained"]["scores"] == [0.0, 30.0]
    assert row["starts"]["pretrained"]["mean"] == 15.0
    assert row["difference"] == -40.0


def test_a_column_for_each_model(results_dir):
    tables = results_figures.blocks(results_figures.collect(results_dir))
    rows = {row[0]: row[1:] for row in cells(tables["results-pretraining"])}
    assert rows["tokens of text"] == ["4.0 M", "4.0 M"]
    assert rows["read"] == ["4.1 times", "1.3 times"]
    assert rows["steps"][1] == "2,500 of 16 examples of 128 tokens"
    # Of Korean nothing is held out, and its cost was lost.
    assert rows["CPU minutes"] == ["2", ""]
    assert rows["disc_auc"] == ["0.750", "0.625"]


def run_table(folder):
    return helpers.execute(
        "tools/experiments/results_figures.py", f"--results-dir={folder}"
    )


def test_the_command_writes_figures_tables_and_curves(results_dir):
    result = run_table(results_dir)
    assert result.returncode == 0, result.stderr
    assert "| wnli " in (results_dir / "results.md").read_text()
    figures = helpers.read_json(results_dir / "results.json")
    english = figures["pretraining"][0]
    assert english["curve"][0]["num_tokens"] == 50 * 16 * 128
    plot = (results_dir / "results.png").read_bytes()
    assert plot.startswith(b"\x89PNG")


def test_a_run_without_its_counterpart(results_dir):
    shutil.rmtree(results_dir / "runs" / "rte" / "from_scratch")
    result = run_table(results_dir)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("results_figures: error: Expected the results of a")
    assert "rte/from_scratch/results.json" in line


@pytest.mark.parametrize(
    ("start", "changes", "message"),
    [
        # The folder of another start.
        ("pretrained", {"from_scratch": True}, "from_scratch=False and no dec"),
        ("from_scratch", {"main_metric": "f1"}, "one main_metric for all"),
        ("from_scratch", {"num_rows": {"dev": 276}}, "one num_rows for all"),
        ("pretrained_decay", {"trials": [{}]}, "the scores of rte.*'trial'"),
        ("pretrained", {"trials": []}, "the scores of rte.*another layout"),
    ],
)
def test_scores_that_do_not_compare(results_dir, start, changes, message):
    write_start(results_dir, "rte", start, (55.0,), **changes)
    with pytest.raises(ValueError, match=message):
        results_figures.collect(results_dir)


def test_a_task_that_is_there_twice(results_dir):
    runs = results_dir / "runs"
    shutil.copytree(runs / "wnli", runs / "wnli (copy)")
    with pytest.raises(ValueError, match=r"of wnli \(copy\). Rec.*of wnli\."):
        results_figures.collect(results_dir)


def test_starts_of_other_rows_or_weights(results_dir):
    for start, digests in (
        ("from_scratch", {"rows": 1, "tensors": "random"}),
        ("pretrained", {"rows": 1, "tensors": "4,000 steps"}),
        ("pretrained_decay", {"rows": 1, "tensors": "8,000 steps"}),
    ):
        path = results_dir / "runs" / "rte" / start / "trial_1" / "trial.json"
        write(path, {"digests": digests})
    with pytest.raises(ValueError, match="same initial weights .*pretrained_d"):
        results_figures.collect(results_dir)
    write(path, {"digests": {"rows": 2}})
    with pytest.raises(ValueError, match="Expected the same rows"):
        results_figures.collect(results_dir)


def test_results_that_are_damaged(results_dir):
    path = results_dir / "runs" / "rte" / "pretrained" / "results.json"
    path.write_text('{"main_metric": "acc')
    with pytest.raises(ValueError, match=f"Cannot read {path}"):
        results_figures.collect(results_dir)
    path.write_text("{}")
    with pytest.raises(ValueError, match="Expected the results of pretrained"):
        results_figures.collect(results_dir)


def test_pretraining_that_is_not_done(results_dir):
    path = results_dir / "english" / "pretrain" / "eval_results.json"
    last = helpers.read_json(path)
    path.write_text(json.dumps(last | {"step": 7000}))
    with pytest.raises(ValueError, match="Expected 8,000 steps .* 7,000"):
        results_figures.collect(results_dir)
    (results_dir / "korean" / "pretrain" / "metrics.jsonl").write_text("")
    path.write_text(json.dumps(last))
    with pytest.raises(ValueError, match="Expected metrics of pre-training"):
        results_figures.collect(results_dir)
    shutil.rmtree(results_dir / "korean")
    with pytest.raises(ValueError, match="Expected a model directory"):
        results_figures.collect(results_dir)


# --- The commands -------------------------------------------------------------


def run_script(*args, **environment):
    return subprocess.run(
        ["bash", str(helpers.ROOT / "tools/experiments/run_results.sh"), *args],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHON": "echo"} | environment,
        check=False,
    )


def test_pretraining_is_a_run_like_others(capsys):
    assert results_pretraining.main(["korean", "--dry_run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# korean pre-training: to run"
    assert "--gin_file=gin/results/korean.gin" in lines[1]
    result = run_script(str(helpers.ROOT), "korean", "table")
    assert result.stdout.splitlines() == [
        "tools/experiments/results_pretraining.py korean",
        "tools/experiments/results_figures.py --results-dir=build/results",
    ]


def test_starts_are_limited():
    result = run_script(str(helpers.ROOT), "cola", STARTS="pretrained")
    (line,) = result.stdout.splitlines()
    assert line.endswith("--model_dir=build/results/runs/cola/pretrained")


@pytest.mark.parametrize(
    ("args", "starts", "message"),
    [
        ([], "", "Expected tools/experiments/run_results.sh DATA"),
        (["/none"], "", "Expected the folder of the public sets. Received: /n"),
        # Before anything is run.
        (
            ["/", "cola", "clo"],
            "",
            "Expected steps among data .* Received: clo",
        ),
        (["/", "cola"], "pretraind", "Expected STARTS among .* pretraind"),
    ],
)
def test_mistakes_are_one_line(args, starts, message):
    result = run_script(*args, **({"STARTS": starts} if starts else {}))
    assert result.returncode == 1 and not result.stdout
    (line,) = result.stderr.splitlines()
    assert re.match(f"run_results: error: {message}", line), line


def test_of_single_trials_nothing_is_known_of_chance():
    start = {"mean": 60.0, "stdev": None}
    row = {
        "starts": dict.fromkeys(results_figures._STARTS, start),
        "difference": 5.0,
        **{"task": "rte", "split": "dev", "num_rows": 9, "metric": "accuracy"},
        "baseline": None,
    }
    _, cells = results_figures._table([row])
    assert cells[5:] == ["60.0", "60.0", "+5.0", "60.0"]
    row["starts"] = dict.fromkeys(row["starts"], start | {"stdev": 2.0})
    _, cells = results_figures._table([row])
    assert cells[5:] == [
        "60.0 +- 2.0",
        "60.0 +- 2.0",
        "**+5.0**",
        "60.0 +- 2.0",
    ]
