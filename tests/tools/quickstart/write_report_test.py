"""Tests of tools/quickstart/write_report.py."""

import json
import re
from typing import NamedTuple

import pytest
import write_report

from tests import pages

METRICS = {"step": 20, "masked_lm_accuracy": 0.31, "masked_lm_loss": 4.2}
METRICS |= {"sampled_masked_lm_accuracy": 0.23, "disc_loss": 0.28}
METRICS |= {"disc_auc": 0.89, "disc_accuracy": 0.9, "disc_precision": 0.7}
METRICS |= {"disc_recall": 0.4, "replaced_rate": 0.125}
SUMMARY = {
    "test_accuracy": {
        "pretrained": {"mean": 0.7, "stdev": 0.07, "seeds": [0.75, 0.65]},
        "random_weights": {"mean": 0.551, "stdev": 0.0, "seeds": [0.551]},
        "tf_idf": {"mean": 0.612},
        "majority": {"mean": 0.503},
    },
    "pretraining": METRICS,
    "seconds": {"<corpus>": 21.5, "pretrain": 1400.0},
}


class Token(NamedTuple):
    """As in heldout_sentences, which imports TensorFlow."""

    original: str
    shown: str
    is_replaced: bool = False
    probability: float = 0.0


def tokens(text):
    """'a|b' is a token "a" that was replaced by "b"."""
    pairs = [word.split("|") for word in text.split()]
    return [Token(x[0], x[-1], is_replaced=len(x) > 1) for x in pairs]


@pytest.fixture
def folder(tmp_path):
    argv = ["/x/electra_tf/run_pretraining.py", "--gin_param=A.b='c d'"]
    run = pages.RUN | {"argv": argv}
    for name in ("pretrain", "finetune_pretrained", "finetune_from_scratch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.jsonl").write_text(json.dumps(run) + "\n")
    log = [
        METRICS | {"step": step, "split": split}
        for step, split in ((5, "train"), (10, "train"), (10, "heldout"))
    ]
    path = tmp_path / "pretrain" / "metrics.jsonl"
    path.write_text("\n".join(map(json.dumps, log)))
    return tmp_path


GOOD = "this function returns|a the mean of all the given values ."


def test_page_is_whole_and_says_it_all(folder):
    example = tokens(f"[CLS] end . {GOOD} rest [SEP]")
    page = write_report.render(folder, SUMMARY, [example], 2_100_000)
    pages.assert_whole(page, ("finetune_pretrained/report.html",))
    # Six curves and the bars.
    assert page.count("<svg") == 7
    for part in (
        "2.1 million parameters",
        "Pre-training raises the test accuracy",
        "55.1\xa0% without it, 70.0\xa0% with it",
        "<b>61.2\xa0%</b>",
        "<b>50.3\xa0%</b>",
        "TF-IDF 61.2 %; random weights 55.1 %; pre-trained 70.0 % ± 7.0",
        '&lt;corpus&gt;</th><td class="number">21.5</td>',
        'total</th><td class="number">1,421.5</td>',
        "<b>24 min</b>",
        "<rt><del>returns</del></rt>",
        "0123abc",
        *(f"{value:.4f}</td>" for value in list(METRICS.values())[1:-1]),
        "would give\n0.875",
    ):
        assert part in page, part
    other = json.loads(json.dumps(SUMMARY))
    other["test_accuracy"]["pretrained"]["mean"] = 0.5
    page = write_report.render(folder, other, [], 1)
    assert "Pre-training does not raise the test accuracy" in page
    assert "Which words were replaced?" not in page


def test_a_summary_that_is_missing_is_one_line(folder, capsys):
    assert write_report.main([f"--build_dir={folder}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"Expected {folder}/summary.json, found none" in line


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("un ##friend ##ly words .", "unfriendly words."),
        ("f ( x , y ) is 3 .", "f (x, y) is 3."),
        ("end - to - end , a / b , x _ y", "end-to-end, a/b, x_y"),
        ("don ' t say", "don't say"),
        # What was drawn is seen: it stands alone, if it can.
        ("say to|, me", "say , me"),
        ("say to|##ing me", "say …ing me"),
        ("walk ##ed|##ing home", "walking home"),
        ("walk ##ed|home", "walk home"),
    ],
)
def test_word_pieces_are_joined_readably(text, joined):
    html = write_report.render_sentence(tokens(text), 0.5)
    html = re.sub(r"<rt>.*?</rt>|<[^>]*>", "", html)
    assert html.replace("&#x27;", "'") == joined


def test_sentence_is_escaped_and_marked():
    tokens_ = [Token("<i>", "<script>", True, 0.3), Token("a", "b", True, 0.29)]
    tokens_ += [Token("&", "&", False, 0.3), Token("ok", "ok", False, 0.25)]
    html = write_report.render_sentence(tokens_, 0.3)
    found = re.findall(r'<(\w+) class="t ([a-z-]+)"[^>]*>([^<]*)', html)
    assert found == [
        ("ruby", "hit", "&lt;script&gt;"),
        ("ruby", "miss", "b"),
        ("span", "false-alarm", "&amp;"),
        ("span", "clear", "ok"),
    ]
    assert "<rt><del>&lt;i&gt;</del></rt>" in html
    assert 'style="--p:0.29"' in html and 'title="replaced with 29%"' in html


def test_half_of_the_replacements_are_above_the_threshold():
    found = [Token("a", "b", True, p) for p in (0.1, 0.2, 0.3, 0.4)]
    found += [Token("a", "a", False, p) for p in (0.05, 0.1, 0.2, 0.9, 0.0)]
    found += [Token("[CLS]", "[CLS]", False, 1.0)]
    assert write_report.find_half(found) == (0.3, 0.2)


def test_sentences_are_whole_and_chosen_once():
    texts = [
        f"[CLS] end . {GOOD} rest [SEP]".replace("mean", word)
        for word in ("ab", "cd", "ef")
    ]
    # Repeats; half a sentence; nothing replaced; unknown; rather code.
    texts += [texts[0], f"[CLS] {GOOD} rest [SEP]", texts[0].replace("|a", "")]
    texts += [texts[1].replace("cd", "[UNK]"), texts[2].replace("the", "=")]
    chosen = write_report.choose_sentences([tokens(text) for text in texts])
    assert [sentence[4].original for sentence in chosen] == ["ab", "cd", "ef"]
