"""Tests of finetuning/report.py."""

import json
import re

import numpy as np
import pytest

from electra_tf.finetuning import report
from tests import pages

LABELS = ["<i>", "없음"]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def results_of(kind="classification", **changes):
    """results.json of two trials, of which the second is better."""
    scores = ({"macro_f1": 50.0, "loss": 0.7}, {"macro_f1": 75.0, "loss": 0.5})
    values = {
        "task": "mine & yours",
        "kind": kind,
        "labels": LABELS,
        "main_metric": "macro_f1",
        "from_scratch": False,
        "num_rows": {"train": 60, "dev": 40},
        "trials": [
            {"trial": n, "seed": n, "degenerate": [], "dev": of_trial}
            for n, of_trial in enumerate(scores, start=1)
        ],
        "best_on_dev": 2,
        "degenerate_trials": [],
        "replaced_trials": [],
        "baseline": {"name": "majority class '<i>'", "dev": {"macro_f1": 33.0}},
        "dev": {"macro_f1_mean": 62.5, "macro_f1_stdev": 17.7},
        "recipe": {"learning_rate": {"value": [1e-4, 3e-4], "source": "given"}},
    }
    return values | changes


def predictions(model_dir, header, rows):
    lines = ["\t".join(cells) for cells in [header, *rows]]
    path = model_dir / "trial_2/dev_predictions.tsv"
    write(path, "\n".join(lines) + "\n")


@pytest.fixture
def model_dir(tmp_path):
    """What the two trials left behind; 30 rows of 40 are right."""
    argv = ["/x/electra_tf/run_finetuning.py", "--model_dir=<m>"]
    record = pages.RUN | {"argv": argv}
    write(tmp_path / "runs.jsonl", json.dumps(record) + "\n")
    lines = ["label\tprediction\t<i>\t없음\ttext"]
    lines += ["<i>\t<i>\t0.9\t0.1\tgood"] * 30
    lines += ["없음\t<i>\t0.8\t0.2\t<script>나쁜 글"] * 10
    for number in (1, 2):
        folder = tmp_path / f"trial_{number}"
        write(folder / "dev_predictions.tsv", "\n".join(lines) + "\n")
        log = [
            {"step": step, "split": split, "mine & yours_loss": 1 / step}
            | {"mine & yours_macro_f1": 10.0 * step}
            for step, split in ((2, "train"), (2, "heldout"), (4, "train"))
        ]
        write(folder / "metrics.jsonl", "\n".join(map(json.dumps, log)))
    return tmp_path


# --- The rows ----------------------------------------------------------------


def row(label, prediction, *scores, texts=("wa",)):
    return report.Row(label, prediction, scores, tuple(texts))


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        (  # The surest mistake.
            "classification",
            [row("a", "a", 0.9, 0.1), row("a", "b", 0.4, 0.6)]
            + [row("b", "a", 0.8, 0.2)],
            [2, 1],
        ),
        (  # The surest wrong decision.
            "multi_label_classification",
            [row("a|b", "a|b", 0.9, 0.6), row("a", "a|b", 0.9, 0.7)]
            + [row("", "", 0.1, 0.2), row("b", "", 0.3, 0.1)],
            [3, 1],
        ),
        # The number that is off most.
        (
            "regression",
            [row("1.5", "1.0"), row("-2", "1"), row("4", "4.0")],
            [1, 0],
        ),
        (  # A word that was not seen is right where nothing is.
            "tagging",
            [row("O S-PER", "O -", 0.6), row("S-PER O", "S-PER -", 0.9)]
            # Nothing was seen, so nothing is sure.
            + [row("S-LOC", "O", 0.8), row("S-LOC", "-", 0.0)],
            [2, 0, 3],
        ),
        (  # The answer that shares no word with a right one.
            "question_answering",
            [row("the red house | a house", "A house", 0.0)]
            + [row("the red house", "red", 0.0), row("Rome", "", 0.0)]
            + [row("", "", 0.5)],
            [2, 1],
        ),
    ],
)
def test_the_worst_rows_come_first(kind, rows, expected):
    rows = [r._replace(texts=(f"row {n}",)) for n, r in enumerate(rows)]
    shown = report.worst_rows(rows, kind, ["a", "b"])
    assert [int(n) for n in re.findall(r"row (\d)", shown)] == expected


def test_a_row_as_it_is_shown():
    texts = ["a < b", "x" * 2000, ""]
    shown = row("<i>", "없음", 0.0, 1.0, texts=texts)
    again = row("<i>", "없음", 0.4, 0.6, texts=texts)
    page = report.worst_rows([again, shown], "classification", LABELS)
    for part in (
        '<p class="text" dir="auto">a &lt; b</p>',
        "x" * 1000 + " …</p>",
        "(an empty text)",
        'taken for <b dir="auto">없음</b> ·',
        # What is wrong is never called certain.
        'labelled <b dir="auto">&lt;i&gt;</b> · &lt;i&gt; with 0.1 %, ',
        "없음 with 99.9 %",
        "2 of 2 answers are wrong",
    ):
        assert part in page, part
    assert page.count("<li>") == 1
    page = report.worst_rows([row("2", "0.5")], "regression", ())
    assert "off by 1.500" in page
    page = report.worst_rows([row("a", "a", 1.0, 0)], "classification", LABELS)
    assert "Every row is right" in page


# --- Calibration -------------------------------------------------------------


def bins(found):
    label = re.search('aria-label="How sure it is[^:]*: ([^"]*)"', found)
    return label and label[1].split("; ")


def test_calibration_by_hand(model_dir):
    """Two answers of 0.6, one right; three of 0.9 and 1.0, all right."""
    rows = [
        *(["a", "a", "0.6", "0.4", "wa"], ["b", "a", "0.6", "0.4", "wa"]),
        *(["a", "a", "0.9", "0.1", "wa"], ["b", "b", "0.0", "1.0", "wa"]),
        ["a", "a", "1.0", "0.0", "wa"],
    ]
    predictions(model_dir, ["label"], 10 * rows)
    results = results_of(labels=["a", "b"])
    found = report.render(str(model_dir), results)
    # 0.9 is on an edge, and so in a bin of its own.
    assert bins(found) == [
        "60 % sure, 50 % right, 20 times",
        "90 % sure, 100 % right, 10 times",
        "100 % sure, 100 % right, 20 times",
    ]
    # (2 * 0.1 + 1 * 0.1 + 2 * 0) / 5, and (2 * 0.1 - 1 * 0.1) / 5.
    assert "error: <strong>6.0&nbsp;%</strong>" in found
    assert "It is 2.0 points too sure on average" in found
    predictions(model_dir, ["label"], rows)
    found = report.render(str(model_dir), results)
    assert "not shown of fewer than 30 answers" in found
    assert bins(found) is None


# --- The page ----------------------------------------------------------------


def report_of(num_labels=2):
    """What `tasks.reports` says of the rows above."""
    labels = LABELS + [f"label {n}" for n in range(3, num_labels + 1)]
    counts = np.zeros((num_labels, num_labels), int)
    counts[0, 0], counts[1, 0] = 30, 10
    nothing = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    classes = dict.fromkeys(labels, nothing) | {
        "<i>": {"precision": 75.0, "recall": 100.0, "f1": 85.7, "support": 30},
        "없음": nothing | {"support": 10},
    }
    return {
        "classes": classes,
        "macro_f1": 42.86,
        "weighted_f1": 64.29,
        "confusion_matrix": {"labels": labels, "counts": counts.tolist()},
    }


def test_page_is_whole_and_says_it_all(model_dir):
    found = report.render(
        str(model_dir), results_of(report={"dev": report_of()})
    )
    pages.assert_whole(found)
    # Loss, dev score, calibration.
    assert found.count("<svg") == 3
    assert "mine &amp; yours" in found and "<script" not in found
    for part in (
        '<div class="tile strong"><b>62.5</b><span>dev: macro F1, mean of 2 ',
        "<b>33.0</b><span>dev: majority class &#x27;&lt;i&gt;&#x27;</span>",
        '<th scope="row" dir="auto">trial 2</th><td class="number">2</td>',
        "best on dev: trial 2",
        "dev 20 at step 2, 20 at step 2",
        '<th scope="row" dir="auto">없음</th><td class="number">10</td>',
        "macro F1 42.86 · weighted F1 64.29",
        '<b dir="auto">없음</b> for <b dir="auto">&lt;i&gt;</b> 10 times',
        "10 of 40 answers are wrong",
        "&lt;script&gt;나쁜 글",
        "0.0001 or 0.0003",
        "electra-tf finetune \\\n    &#x27;--model_dir=&lt;m&gt;&#x27;</pre>",
        "0123abc",
    ):
        assert part in found, part


def test_the_page_of_ones_own_files_has_the_name_of_its_folder(model_dir):
    found = report.render(str(model_dir), results_of(task="own_data"))
    assert f"<h1>{model_dir.name}</h1>" in found


def test_without_evaluations_the_last_scores_are_shown(model_dir):
    for number in (1, 2):
        path = model_dir / f"trial_{number}/metrics.jsonl"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(x for x in lines if "heldout" not in x))
    found = report.render(str(model_dir), results_of())
    assert "dev 75 at step 4, 75 at step 4" in found


def test_of_many_classes_the_commonest_mistakes_are_told(model_dir):
    found = report.render(
        str(model_dir), results_of(report={"dev": report_of(num_labels=31)})
    )
    assert 'class="confusion"' not in found
    assert "for <b dir" in found
    assert found.count('<th scope="row" dir="auto">label ') == 29


def test_several_tasks(model_dir):
    scores = {"dev": {"spearman": 10.0, "loss": 0.5}}
    results = results_of(
        tasks={
            name: {
                "kind": kind,
                "main_metric": "spearman",
                "num_rows": {"train": 6, "dev": 3, "test": 9},
                "baseline": {"name": ""},
                "dev": {"spearman_mean": 10.0, "spearman_stdev": None},
            }
            for name, kind in (("one", "regression"), ("two", "mine"))
        },
        trials=[
            {
                "trial": 2,
                "seed": 1,
                "degenerate": [],
                "tasks": {"one": scores, "two": scores},
            }
        ],
    )
    write(
        model_dir / "trial_2/one_dev_predictions.tsv",
        "label\tprediction\ttext\n1\t1.5\twa\n2\t1.5\twb\n5\t1.5\twc\n",
    )
    found = report.render(str(model_dir), results)
    pages.assert_whole(found)
    assert "one, dev: spearman" in found
    assert "The dev set: one" in found
    assert "off by 3.500" in found
    # Nothing is known of a kind of one's own but its scores.
    assert "The dev set: two" not in found


def test_a_page_that_cannot_be_written_says_so(model_dir, capsys):
    write(model_dir / "trial_2/dev_predictions.tsv", "label\nno\n")
    write(model_dir / "report.html", "what an earlier run wrote")
    report.write(str(model_dir), results_of())
    said = capsys.readouterr().out
    path = model_dir / "report.html"
    assert said.startswith(f"no {path}: ValueError: ")
    assert said.count("\n") == 1
    assert not path.exists()
