"""Tests of the tools behind docs/results.md."""

import json
import shutil

import pytest

from electra_tf import configs
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from tests import helpers
from tools.experiments import build_results_data, results_table

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


def write_results(folder, mean, stdev):
    folder.mkdir(parents=True)
    scores = {"accuracy_mean": mean, "accuracy_stdev": stdev}
    found = {
        "main_metric": "accuracy",
        "num_rows": {"train": 2490, "dev": 277, "test": 3000},
        "baseline": {"name": "majority", "dev": {"accuracy": 52.7}},
        "dev": scores,
    }
    (folder / "results.json").write_text(json.dumps(found))


def test_a_table_of_all_starts(tmp_path):
    for task, mean in (("rte", 61.0), ("wnli", 56.5)):
        write_results(tmp_path / task / "from_scratch", 55.0, 0.75)
        write_results(tmp_path / task / "pretrained", mean, 1.0)
        write_results(tmp_path / task / "pretrained_decay", 58.0, 2.0)
    found = results_table.rows(results_table.read_runs(tmp_path))
    start = ["dev", "277", "accuracy", "52.7", "55.0 +- 0.8"]
    assert found[1:] == [
        ["rte", *start, "61.0 +- 1.0", "**+6.0**", "58.0 +- 2.0"],
        # Less than both standard deviations together.
        ["wnli", *start, "56.5 +- 1.0", "+1.5", "58.0 +- 2.0"],
    ]
    lines = results_table.markdown(found).splitlines()
    assert lines[0].startswith("| task | split | rows | metric   | baseline |")
    assert lines[1].startswith("| ---- | ----- | ---- | -------- | -------- |")
    assert len({len(line) for line in lines}) == 1


def test_a_run_without_its_counterpart(tmp_path):
    write_results(tmp_path / "rte" / "pretrained", 61.0, 1.0)
    result = helpers.execute(
        "tools/experiments/results_table.py", f"--runs-dir={tmp_path}"
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("results_table: error: Expected the results of a")
    assert "rte/from_scratch/results.json" in line
