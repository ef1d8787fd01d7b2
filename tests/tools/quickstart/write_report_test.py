"""Tests of tools/quickstart/write_report.py and what it puts together."""

import json
import re
from typing import NamedTuple

import pytest
import quickstart_charts
import quickstart_figures
import report_page
import shown_sentences
import write_report

from tests import pages

HELDOUT = {
    "step": 20,
    "masked_lm_accuracy": 0.31,
    "masked_lm_loss": 4.2,
    "sampled_masked_lm_accuracy": 0.23,
    "disc_loss": 0.28,
    "disc_auc": 0.89,
    "disc_accuracy": 0.9,
    "disc_precision": 0.7,
    "disc_recall": 0.4,
    "replaced_rate": 0.125,
}
SECONDS = {
    "corpus": 21.5,
    "vocab": 10,
    "tfrecords": 30.25,
    "pretrain": 400,
    "finetune": 200,
    "export": 12,
}


class Token(NamedTuple):
    """As in heldout_sentences, which imports TensorFlow."""

    original: str
    shown: str
    is_replaced: bool = False
    probability: float = 0.0


def tokens(text):
    """'a|b' is a token "a" that was replaced by "b"."""
    return [
        Token(*word.split("|"), is_replaced=True)
        if "|" in word
        else Token(word, word)
        for word in text.split()
    ]


def results(from_scratch, test_accuracies):
    trials = [
        {
            "trial": n,
            "dev": {"accuracy": accuracy - 2.5},
            "test": {"accuracy": accuracy},
        }
        for n, accuracy in enumerate(test_accuracies, start=1)
    ]
    return {
        "labels": ["<b>", "numpy"],
        "from_scratch": from_scratch,
        "num_rows": {"train": 1600, "dev": 4, "test": 4},
        "trials": trials,
        "best_on_dev": 2,
        "degenerate_trials": [],
        "baseline": {
            "name": "majority class 'numpy'",
            "dev": {"accuracy": 50.0},
            "test": {"accuracy": 50.0},
        },
        "dev": {},
        "test": {},
    }


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str):
        content = json.dumps(content)
    path.write_text(content, encoding="utf-8")


@pytest.fixture
def build_dir(tmp_path):
    run = {
        "time": "2026-01-02T03:04:05+0000",
        "argv": ["/x/electra_tf/run_pretraining.py", "--gin_param=A.b='c d'"],
        "python": "3.11.7",
        "versions": {"keras": "3.10.0", "electra_tf": None},
        "git_commit": "0123abc",
    }
    log = [
        {"step": step, "split": split} | HELDOUT | {"step": step}
        for step, split in ((5, "train"), (10, "train"), (10, "heldout"))
    ]
    pretrain = tmp_path / "pretrain"
    write(pretrain / "eval_results.json", HELDOUT)
    write(pretrain / "metrics.jsonl", "\n".join(map(json.dumps, log)))
    write(
        pretrain / "config.json",
        {
            "run": {"num_train_steps": 2000},
            "data": {
                "train_batch_size": 64,
                "eval_batch_size": 128,
                "num_eval_steps": 40,
            },
        },
    )
    for name, is_from_scratch, accuracies in (
        ("finetune_pretrained", False, [75.0, 65.0]),
        ("finetune_from_scratch", True, [50.0, 60.0]),
    ):
        write(
            tmp_path / name / "results.json",
            results(is_from_scratch, accuracies),
        )
        write(tmp_path / name / "runs.jsonl", json.dumps(run) + "\n")
    write(pretrain / "runs.jsonl", json.dumps(run) + "\n")
    write(
        tmp_path / "finetune_pretrained/trial_2/test_predictions.tsv",
        "label\tprediction\t<b>\tnumpy\ttext\n"
        "<b>\t<b>\t0.9\t0.1\tone\n"
        "<b>\tnumpy\t0.4\t0.6\ttwo\n"
        'numpy\tnumpy\t0.1\t0.9\t"three\n'
        "numpy\tnumpy\t0.2\t0.8\tfour\n",
    )
    for stage, seconds in SECONDS.items():
        write(tmp_path / "seconds" / stage, f"{seconds}\n")
    return tmp_path


def error_of(build_dir, capsys):
    """The one line of a run that fails."""
    assert write_report.main([f"--build_dir={build_dir}"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_summary(build_dir):
    summary = quickstart_figures.summarize(
        quickstart_figures.read_build(str(build_dir))
    )
    heldout = {
        name: value
        for name, value in HELDOUT.items()
        if name not in ("step", "replaced_rate")
    }
    assert summary == {
        "heldout": heldout,
        "classifier": {
            "accuracy_pretrained": pytest.approx(0.7),
            "accuracy_from_scratch": pytest.approx(0.55),
            "accuracy_majority": 0.5,
            "accuracy_pretrained_per_seed": [0.75, 0.65],
            "accuracy_from_scratch_per_seed": [0.5, 0.6],
            "dev_accuracy_pretrained_per_seed": [0.725, 0.625],
            "dev_accuracy_from_scratch_per_seed": [0.475, 0.575],
        },
        "seconds": SECONDS,
    }


def test_finding_says_which_way_the_accuracy_went(build_dir):
    build = quickstart_figures.read_build(str(build_dir))
    assert quickstart_figures.in_short(build) == (
        "Pre-training raises the test accuracy from 55.0 % to 70.0 % (mean of "
        "2 seeds); always giving the commonest label scores 50.0 %."
    )
    worse = build._replace(
        pretrained=build.from_scratch, from_scratch=build.pretrained
    )
    assert "did not help: it lowers" in quickstart_figures.in_short(worse)
    same = build._replace(pretrained=build.from_scratch)
    assert quickstart_figures.in_short(same) == (
        "Pre-training leaves the test accuracy at 55.0 %."
    )


@pytest.mark.parametrize(
    "missing, step",
    [
        (
            "pretrain/eval_results.json",
            "electra-tf pretrain "
            "--gin_file=gin/quickstart.gin --model_dir={}/pretrain",
        ),
        (
            "finetune_pretrained/trial_2/test_predictions.tsv",
            "electra-tf finetune "
            "--gin_file=gin/quickstart_finetuning.gin "
            "--model_dir={}/finetune_pretrained",
        ),
        (
            "finetune_from_scratch/results.json",
            "electra-tf finetune "
            "--gin_file=gin/quickstart_finetuning.gin "
            "--gin_param=FinetuningConfig.from_scratch=True "
            "--gin_param=OptimizerConfig.learning_rate=3e-4 "
            "--gin_param=OptimizerConfig.layerwise_lr_decay=0.0 "
            "--model_dir={}/finetune_from_scratch",
        ),
        ("seconds/vocab", "the stage 'vocab'"),
    ],
)
def test_missing_file(build_dir, capsys, missing, step):
    (build_dir / missing).unlink()
    assert error_of(build_dir, capsys) == (
        f"write_report: error: Expected {build_dir / missing}, found none: "
        "run electra-tf quickstart, or the step of it that writes this file: "
        + step.format(build_dir)
    )
    assert not (build_dir / "report.html").exists()


@pytest.mark.parametrize(
    "path, content, message",
    [
        ("pretrain/eval_results.json", "{", "Cannot read "),
        ("pretrain/eval_results.json", "{}", "Expected the metric masked_lm_"),
        ("pretrain/metrics.jsonl", "", "Expected lines in "),
        ("seconds/export", "soon", "Received: 'soon'"),
        ("seconds/export", "-1", "Expected a number of seconds in "),
        ("finetune_from_scratch/results.json", "{}", "Expected scores on a t"),
        (
            "finetune_from_scratch/results.json",
            results(False, [1.0, 2.0]),
            "Expected FinetuningConfig.from_scratch=True",
        ),
        (
            "finetune_pretrained/trial_2/test_predictions.tsv",
            "text\tlabel\n",
            "Expected the columns label and prediction in ",
        ),
    ],
)
def test_damaged_file(build_dir, capsys, path, content, message):
    write(build_dir / path, content)
    assert message in error_of(build_dir, capsys)


def test_confusion_counts(build_dir):
    build = quickstart_figures.read_build(str(build_dir))
    assert build.confusion == {
        ("<b>", "<b>"): 1,
        ("<b>", "numpy"): 1,
        ("numpy", "numpy"): 2,
    }


@pytest.mark.parametrize(
    "text, joined",
    [
        ("un ##friend ##ly words .", "unfriendly words."),
        ("f ( x , y ) is 3 .", "f (x, y) is 3."),
        ("end - to - end , a / b , x _ y", "end-to-end, a/b, x_y"),
        ("don ' t say ' no ' , it ' s", "don't say 'no', it's"),
        ('a " quoted " word', 'a "quoted" word'),
        # What was drawn is seen: it stands alone, if it can.
        ("say to|, me", "say , me"),
        ("say to|##ing me", "say …ing me"),
        ("walk ##ed|##ing home", "walking home"),
        ("walk ##ed|home", "walk home"),
    ],
)
def test_word_pieces_are_joined_readably(text, joined):
    html = shown_sentences.render_sentence(tokens(text))
    html = re.sub(r"<rt>.*?</rt>|<sup.*?</sup>|<[^>]*>", "", html)
    assert html.replace("&#x27;", "'").replace("&quot;", '"') == joined


@pytest.mark.parametrize(
    "is_replaced, probability, expected",
    [
        (True, 0.5, "hit"),
        (True, 0.49, "miss"),
        (False, 0.5, "false-alarm"),
        (False, 0.49, "clear"),
    ],
)
def test_verdict(is_replaced, probability, expected):
    assert shown_sentences.verdict(is_replaced, probability) == expected


def test_sentence_is_escaped_and_marked():
    html = shown_sentences.render_sentence(
        [
            Token("<i>", "<script>", True, 0.875),
            Token("&", "&", False, 0.75),
            Token("ok", "ok", False, 0.25),
        ]
    )
    assert html == (
        '<span class="word"><ruby class="t hit" style="--p:0.88" '
        'title="replaced with 88 %">&lt;script&gt;<rt><del>&lt;i&gt;</del></rt>'
        '</ruby><sup class="hit" role="img" aria-label="found">✓</sup></span> '
        '<span class="word"><span class="t false-alarm" style="--p:0.75" '
        'title="replaced with 75 %">&amp;</span><sup class="false-alarm" '
        'role="img" aria-label="false alarm">!</sup></span> '
        '<span class="word"><span class="t clear" style="--p:0.25" '
        'title="replaced with 25 %">ok</span></span>'
    )


GOOD = "this function returns|a the mean of all the given values ."


@pytest.mark.parametrize(
    "text, expected",
    [
        (GOOD, True),
        (GOOD.replace(" .", ""), False),  # Cut off.
        (GOOD.replace("|a", ""), False),  # Nothing was replaced.
        (GOOD.replace("mean", "[UNK]"), False),
        (GOOD.replace("the", "="), False),  # Rather code.
        ("returns|a the mean .", False),
    ],
)
def test_which_sentences_read_well(text, expected):
    assert shown_sentences.reads_well(tokens(text)) == expected


def test_sentences_are_chosen_once_and_evenly():
    texts = [
        f"[CLS] {GOOD} [SEP]".replace("mean", w) for w in ("ab", "cd", "ef")
    ]
    examples = [tokens(text) for text in [texts[0], *texts]]
    chosen = shown_sentences.choose_sentences(examples, 10)
    assert [sentence[4].original for sentence in chosen] == ["ab", "cd", "ef"]
    chosen = shown_sentences.choose_sentences(examples, 2)
    assert [sentence[4].original for sentence in chosen] == ["ab", "cd"]


def test_rest_of_a_name_is_no_sentence():
    example = tokens(f"[CLS] avoid pytest . {GOOD} [SEP]")
    assert shown_sentences.choose_sentences([example], 10) == []


def test_page_is_whole_and_needs_no_network(build_dir):
    build = quickstart_figures.read_build(str(build_dir))
    build.seconds["report"] = 9.0
    page = report_page.render(
        build,
        [tokens(f"[CLS] {GOOD} [SEP]")],
        2_100_000,
        quickstart_charts.draw_charts(build),
    )
    pages.assert_whole(page, ("finetune_pretrained/report.html",))
    assert page.count("<svg") == 8
    assert "2.1 million parameters" in page
    assert "70.0&nbsp;%" in page
    assert '<th scope="row">&lt;b&gt;</th>' in page
    assert "<b>numpy" not in page
    assert "0.875" in page  # What calling every token original would give.
    assert "0123abc" in page


def test_page_without_sentences_and_with_one_seed(build_dir):
    write(
        build_dir / "finetune_pretrained/results.json",
        results(False, [70.0]) | {"best_on_dev": 1, "degenerate_trials": [1]},
    )
    write(
        build_dir / "finetune_pretrained/trial_1/test_predictions.tsv",
        "label\tprediction\n",
    )
    build = quickstart_figures.read_build(str(build_dir))
    page = report_page.render(
        build, [], 1, quickstart_charts.draw_charts(build)
    )
    assert "None of the held-out sentences reads well enough" in page
    assert "pre-trained (one seed)" in page
    assert "gets one label): pre-trained, trial 1." in page
