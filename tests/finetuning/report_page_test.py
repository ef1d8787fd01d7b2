"""Tests of finetuning/report_page.py and what it is made of."""

import json

import numpy as np
import pytest

from electra_tf.finetuning import report_page, report_rows, shown_rows
from electra_tf.finetuning.report_rows import Row
from tests import pages

LABELS = ["<i>", "없음"]


def row(label, prediction, *scores, texts=("wa",)):
    return Row(label, prediction, scores, tuple(texts))


# --- The worst rows ----------------------------------------------------------


def errors_of(rows, kind, labels=()):
    found = report_rows.wrong_rows(rows, kind, labels)
    return [(rows.index(f.row), pytest.approx(f.error)) for f in found]


def test_the_surest_mistake_is_the_worst():
    rows = [
        row("a", "a", 0.9, 0.1),
        row("a", "b", 0.4, 0.6),
        row("b", "a", 0.8, 0.2),
    ]
    found = errors_of(rows, "classification", ["a", "b"])
    assert found == [(2, 0.8), (1, 0.6)]


def test_the_surest_wrong_decision_is_the_worst():
    rows = [
        row("a|b", "a|b", 0.9, 0.6),
        row("a", "a|b", 0.9, 0.7),
        row("", "", 0.1, 0.2),
        row("b", "", 0.3, 0.1),
    ]
    found = errors_of(rows, "multi_label_classification", ["a", "b"])
    assert found == [(3, 0.9), (1, 0.7)]


def test_the_number_that_is_off_most_is_the_worst():
    rows = [row("1.5", "1.0"), row("-2", "1"), row("4", "4.0")]
    assert errors_of(rows, "regression") == [(1, 3.0), (0, 0.5)]


def test_a_word_that_was_not_seen_is_no_mistake_where_nothing_is():
    rows = [
        row("O S-PER", "O -", 0.6, texts=["in Rome"]),
        row("S-PER O", "S-PER -", 0.9, texts=["Rome ,"]),
        row("S-LOC", "O", 0.8, texts=["Rome"]),
        # Nothing was seen, so nothing is sure.
        row("S-LOC", "-", 0.0, texts=["Rome"]),
    ]
    found = errors_of(rows, "tagging")
    assert found == [(2, 0.8), (0, 0.6), (3, 1e-9)]


def test_the_answer_that_shares_no_word_is_the_worst():
    rows = [
        row("the red house | a house", "The house!", float("nan")),
        row("the red house", "red", float("nan")),
        row("Rome", "", float("nan")),
        row("", "", 0.5),
    ]
    found = errors_of(rows, "question_answering")
    assert found == [(2, 1.0), (1, pytest.approx(1 / 3))]


# --- Calibration -------------------------------------------------------------


def test_calibration_by_hand():
    """Two answers of 0.6, one right; three of 0.9 and 1.0, all right."""
    rows = [
        row("a", "a", 0.6, 0.4),
        row("b", "a", 0.6, 0.4),
        row("a", "a", 0.9, 0.1),
        row("b", "b", 0.0, 1.0),
        row("a", "a", 1.0, 0.0),
    ]
    found = report_rows.calibration(rows, "classification", ["a", "b"])
    # 0.9 is on an edge, and so in a bin of its own.
    np.testing.assert_array_equal(found.counts, [2, 1, 2])
    np.testing.assert_allclose(found.sureness, [0.6, 0.9, 1.0])
    np.testing.assert_allclose(found.shares, [0.5, 1.0, 1.0])
    # (2 * 0.1 + 1 * 0.1 + 2 * 0) / 5, and (2 * 0.1 - 1 * 0.1) / 5.
    assert found.error == pytest.approx(0.06)
    assert found.excess == pytest.approx(0.02)


def test_calibration_of_several_labels_is_about_each():
    rows = [row("a", "a|b", 0.75, 0.75), row("", "", 0.25, 0.25)]
    labels = ["a", "b"]
    found = report_rows.calibration(rows, "multi_label_classification", labels)
    np.testing.assert_allclose(found.shares, [0.0, 0.5])
    np.testing.assert_array_equal(found.counts, [2, 2])
    assert found.error == pytest.approx((2 * 0.25 + 2 * 0.25) / 4)


@pytest.mark.parametrize("kind", ["regression", "tagging", "", "mine"])
def test_no_calibration_without_probabilities(kind):
    assert report_rows.calibration([row("1", "1", 0.5)], kind, []) is None


# --- How rows are shown ------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shown", "expected"),
    [
        (
            "classification",
            row("<i>", "없음", 0.0, 1.0, texts=["a < b", "한국어"]),
            [
                '<p class="text" dir="auto">a &lt; b</p>',
                "한국어</p>",
                # What is wrong is never called certain.
                'taken for <b dir="auto">없음</b> with 99.9&nbsp;%',
                'labelled <b dir="auto">&lt;i&gt;</b>, 0.1&nbsp;%',
            ],
        ),
        (
            "classification",
            row("new", "없음", 0.2, 0.8),
            ['labelled <b dir="auto">new</b>, which it never saw'],
        ),
        (
            "multi_label_classification",
            row("<i>", "없음", 0.2, 0.8, texts=["x" * 2000]),
            [
                "x" * 1000 + " …</p>",
                'lacks <b dir="auto">&lt;i&gt;</b>: 20.0&nbsp;%',
                'has too much <b dir="auto">없음</b>: 80.0&nbsp;%',
            ],
        ),
        ("regression", row("2", "0.5"), ["off by 1.500"]),
        (
            "tagging",
            row("S-PER O", "- O", 0.5, texts=["<b> ,"]),
            ["&lt;b&gt;<rt><del>O</del> S-PER</rt></ruby> ,</p>"],
        ),
        # A word with a space in it.
        (
            "tagging",
            row("S-PER O", "O O", 0.5, texts=["New York ,"]),
            ["New York ,</p>", "S-PER O</p>"],
        ),
        (
            "question_answering",
            row("Rome", "", -1.0, texts=["q&1", "Where?"]),
            ["Where?", ">nothing</b>", ">Rome</b>", "<code>q&amp;1</code>"],
        ),
    ],
)
def test_a_row_as_it_is_shown(kind, shown, expected):
    found = shown_rows.render([shown], kind, LABELS, 3)
    for part in expected:
        assert part in found


def test_a_text_is_shown_once():
    rows = [row("a", "b", 0.4, 0.6), row("a", "b", 0.1, 0.9)]
    found = shown_rows.render(rows, "classification", ["a", "b"], 3)
    assert found.count("<li>") == 1
    assert "2 of 2 answers are wrong" in found
    assert "90.0&nbsp;%" in found
    right = [row("a", "a", 0.6, 0.4)]
    found = shown_rows.render(right, "classification", ["a", "b"], 3)
    assert "Every row is right" in found


# --- The page ----------------------------------------------------------------


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
    }
    return values | changes


@pytest.fixture
def model_dir(tmp_path):
    """What the two trials left behind; 30 rows of 40 are right."""
    record = {
        "time": "2026-01-02T03:04:05+0000",
        "argv": ["/x/electra_tf/run_finetuning.py", "--model_dir=<m>"],
        "python": "3.11.7",
        "versions": {"keras": "3.10.0", "electra_tf": None},
        "git_commit": "0123abc",
    }
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


def report(num_labels=2):
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
    recipe = {"learning_rate": {"value": [1e-4, 3e-4], "source": "given"}}
    found = report_page.render(
        str(model_dir),
        results_of(
            report={"dev": report()},
            recipe=recipe,
            notes=["train: 3 of 60 rows are <also> in dev"],
        ),
    )
    pages.assert_whole(found)
    # Loss, dev score, calibration.
    assert found.count("<svg") == 3
    assert "mine &amp; yours" in found and "<script" not in found
    for part in (
        '<div class="tile strong"><b>62.5</b><span>dev: macro F1, mean of 2 ',
        "<b>33.0</b><span>dev: majority class &#x27;&lt;i&gt;&#x27;</span>",
        '<th scope="row">trial 2</th><td class="number">2</td>',
        "best on dev: trial 2",
        "<li>train: 3 of 60 rows are &lt;also&gt; in dev</li>",
        # Of the log, and after the last step that of the trial.
        "dev 20 at step 2, 75 at step 4",
        '<th scope="row" dir="auto">없음</th><td class="number">10</td>',
        "macro F1 42.86 · weighted F1 64.29",
        '<b dir="auto">없음</b> for <b dir="auto">&lt;i&gt;</b> 10 times',
        # |0.9 - 1| of 30, |0.8 - 0| of 10.
        "<strong>27.5&nbsp;%</strong>",
        "It is 12.5 points too sure on average",
        "10 of 40 answers are wrong",
        "&lt;script&gt;나쁜 글",
        "0.0001 or 0.0003",
        "run_finetuning \\\n    &#x27;--model_dir=&lt;m&gt;&#x27;</pre>",
        "0123abc",
    ):
        assert part in found, part


def test_weights_that_were_kept_are_marked(model_dir):
    results = results_of()
    before = report_page.render(str(model_dir), results)
    results["trials"][1] |= {
        "best_step": 2,
        "last_step": 4,
        "evaluations_since_best": 1,
        "num_train_steps": 9,
    }
    found = report_page.render(str(model_dir), results)
    assert "a ring is the step whose weights" in found
    assert "a ring is the step" not in before
    # The score of these weights is not that of the last step.
    assert "dev 20 at step 2, 20 at step 2" in found


def test_many_classes_are_a_picture(model_dir):
    of_dev = report(num_labels=30)
    results = results_of(report={"dev": of_dev}, labels=LABELS)
    found = report_page.render(str(model_dir), results)
    pages.assert_whole(found)
    assert found.count("<svg") == 4
    assert 'class="confusion"' not in found
    # The table names the numbers of the picture.
    assert '<th scope="row" dir="auto">2 · 없음</th>' in found


def test_rows_of_all_folds_are_shown_together(model_dir):
    results = results_of()
    for trial in results["trials"]:
        trial["fold"] = trial["trial"]
    found = report_page.render(str(model_dir), results)
    assert "80 answers of the trials 1, 2 together" in found
    assert "20 of 80 answers are wrong" in found
    # Without the report of an earlier version's trials.
    assert "Each class" not in found


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
    found = report_page.render(str(model_dir), results)
    pages.assert_whole(found)
    assert "one, dev: spearman" in found
    assert "The dev set: one" in found
    assert "off by 1.500 on average, and on average\n1.167 too low" in found
    assert "off by 3.500" in found
    # Nothing is known of a kind of one's own but its scores.
    assert "The dev set: two" not in found


def test_an_evaluation_alone_has_no_course(model_dir):
    for number in (1, 2):
        (model_dir / f"trial_{number}/metrics.jsonl").unlink()
    (model_dir / "runs.jsonl").unlink()
    results = results_of(num_rows={"dev": 40}, baseline={"name": ""})
    found = report_page.render(str(model_dir), results)
    pages.assert_whole(found)
    assert "How it learned" not in found
    assert "training rows" not in found
    assert "10 of 40 answers are wrong" in found


def test_a_page_that_cannot_be_written_says_so(model_dir, capsys):
    write(model_dir / "trial_2/dev_predictions.tsv", "label\nno\n")
    write(model_dir / "report.html", "what an earlier run wrote")
    report_page.write(str(model_dir), results_of())
    said = capsys.readouterr().out
    path = model_dir / "report.html"
    assert said.startswith(f"no {path}: ValueError: ")
    assert said.count("\n") == 1
    assert not path.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\ta\t0.5\t0.5", "Expected 5 or more columns. Received: 4 in"),
        ("a", "Expected 5 or more columns. Received: 1 in"),
        (
            "a\ta\thalf\t0.5\twa",
            "Expected numbers in columns 3 to 4. Received: half, 0.5",
        ),
    ],
)
def test_predictions_that_are_damaged(tmp_path, line, message):
    path = tmp_path / "dev_predictions.tsv"
    write(path, f"label\tprediction\ta\tb\ttext\n{line}\n")
    with pytest.raises(ValueError, match=message) as error:
        report_rows.read(str(path), 2)
    assert str(error.value).endswith("dev_predictions.tsv', row 2.")
