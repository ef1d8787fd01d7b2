import numpy as np
import pytest
import seqeval.metrics

from electra_tf.tasks import conll, tagging
from tests import notices

FILE = """-DOCSTART- -X- O

a NN B-NP
bx NN I-NP
. . O

c VB B-VP
d NN B-NP"""


def test_sentences_and_the_dropped_last_one(write):
    path = write("train.txt", FILE)
    first = conll.Sentence(("a", "bx", "."), ("B-NP", "I-NP", "O"), row=3)
    assert conll.read(path, as_original=True) == [first]
    (middle,) = conll.read(path, tag_column=1, as_original=True)
    assert middle.tags == ("NN", "NN", ".")


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O", []),
        ("B-NP E-NP O S-VP", [(0, 1, "NP"), (3, 3, "VP")]),
        ("B-NP B-NP", [(0, 0, "NP"), (1, 1, "NP")]),
        # Lenient: I and E go on, whatever was before.
        ("I-NP E-VP O", [(0, 1, "VP")]),
        ("O I-NP I-NP", [(1, 2, "NP")]),
        ("", []),
    ],
)
def test_spans_of_tags(tags, spans):
    assert tagging.spans_of_tags(tags.split()) == spans


def _task(*labels, **kwargs):
    return tagging.TaggingTask("t", {}, labels=labels or ["O"], **kwargs)


def test_the_early_cut_and_the_late_one(tokenizer):
    words = [[5], [6], [7]]
    # 5 words with [CLS] and [SEP] + 2 tokens + 1 exceed 7.
    assert _task().pack(words, tokenizer, 7) == ([2, 5, 3], [1])
    row = _task(as_original=False).pack(words, tokenizer, 5)
    assert row == ([2, 5, 6, 7, 3], [1, 2, 3])
    # A word longer than the row.
    example = tagging.TaggingExample(0, ("axxxxxxx",), ("O",))
    features = _task().features([example], tokenizer, 6)
    assert features["input_ids"].tolist() == [[2, 5, 13, 13, 13, 3]]


def test_a_word_without_tokens(tokenizer):
    example = tagging.TaggingExample(0, ("\u200b", "b"), ("S-X", "S-Y"))
    for as_original, positions in ((True, [1, 1]), (False, [1, 0])):
        task = _task("S-X", "S-Y", as_original=as_original)
        features = task.features([example], tokenizer, 9)
        found = features["t_labeled_positions"][0, :2].tolist()
        assert found == positions
        assert features["t_labels_mask"].sum() == 1 + as_original
        assert features["t_labels"][0, 0] == (not as_original)


def test_word_tokens_lower_and_keep_ideographs_in_words(tokenizer):
    words = ["AX", "À", "a-b", "a中", "[CLS]", "中"]
    tokens = _task().word_tokens(words, tokenizer)
    assert tokens == [[5, 13], [5], [5, 19, 6], [1], [2], [23]]


def test_scores_count_spans_and_the_loss_twice():
    labels = ("B-X", "E-X", "O", "S-X")
    outputs = {
        "labels": np.array([[0, 1, 2, 3], [2, 0, 0, 0]]),
        "predictions": np.array([[0, 1, 3, 2], [2, 3, 3, 3]]),
        "labels_mask": np.array([[1.0] * 4, [1.0, 0.0, 0.0, 0.0]]),
        "loss": np.array([4.0, 1.0]),
    }
    # True spans (0, 1) and (3, 3); predicted (0, 1) and (2, 2). 5 words.
    of_spans = dict.fromkeys(("precision", "recall", "f1"), 50.0)
    scores = _task(*labels).scores(outputs)
    assert scores == of_spans | {"seqeval_f1": 50.0, "loss": 2.0}
    scores = _task(*labels, as_original=False).scores(outputs)
    assert scores == of_spans | {"loss": 1.0}
    words = _task(*labels, as_original=False, is_token_level=True)
    assert words.scores(outputs) == {"accuracy": 60.0, "loss": 1.0}


def _right(task, example, tokenizer):
    """The outputs of a model that says the labels that it sees, of 4 tokens."""
    features = task.features([example], tokenizer, 4)
    labels = features["t_labels"]
    return features, {
        "labels": labels,
        "labels_mask": features["t_labels_mask"],
        "predictions": labels,
        "logits": np.eye(len(task.labels))[labels],
        "loss": np.zeros(1),
    }


def test_spans_behind_the_cut_count(tokenizer):
    """As seqeval counts over the written predictions."""
    labels = ("B-X", "E-X", "O", "S-X")
    words = ("a", "\u200b", "b", "c", "d")
    example = tagging.TaggingExample(0, words, ("S-X", "O", "S-X", "O", "S-X"))
    task = _task(*labels, as_original=False)
    # [CLS] a b [SEP]: the last two words are cut, the second has no tokens.
    _, outputs = _right(task, example, tokenizer)
    assert outputs["labels_mask"].sum() == 2
    about = (outputs, [example], tokenizer, 4)
    scores = task.scores(*about)
    assert scores["precision"] == 100.0
    assert scores["recall"] == pytest.approx(200 / 3)
    assert scores["f1"] == pytest.approx(80.0)
    (row,) = task.prediction_table([example], outputs, tokenizer, 4)[1]
    assert row[:2] == ["S-X O S-X O S-X", "S-X O S-X - -"]
    with pytest.warns(UserWarning, match="- seems not to be"):
        written = seqeval.metrics.f1_score([row[0].split()], [row[1].split()])
    assert scores["f1"] == pytest.approx(100 * written)
    report = task.report(*about)
    assert report["classes"]["X"]["support"] == 3
    assert report["weighted_f1"] == pytest.approx(80.0)
    # The original's scorer leaves out what is behind its cut.
    example = tagging.TaggingExample(0, ("a", "b", "c"), ("S-X",) * 3)
    scores = _task(*labels).scores(outputs, [example])
    assert scores["f1"] == 100.0
    assert scores["seqeval_f1"] == pytest.approx(80.0)


def test_words_that_no_model_saw_are_outside(tokenizer):
    example = tagging.TaggingExample(0, tuple("abcd"), tuple("XYOX"))
    task = _task(*"OXY", is_token_level=True, as_original=False)
    _, outputs = _right(task, example, tokenizer)
    # a and b are right, c is O by chance, d is not.
    assert task.scores(outputs, [example], tokenizer)["accuracy"] == 75.0
    report = task.report(outputs, [example], tokenizer)
    counts = [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert report["confusion_matrix"]["counts"] == counts
    baseline = task.baseline([example], {"dev": [example]})
    assert baseline["dev"]["accuracy"] == 50.0


def test_what_a_run_asks_of_a_tagging_task(write):
    path = write("train.txt", FILE)
    task = tagging.TaggingTask("ner", {"train": path}, as_original=False)
    assert task.splits() == ["train"]
    assert task.main_metric == "f1"
    train = task.read_examples("train")
    baseline = task.baseline(train, {"dev": train})
    assert (baseline["name"], baseline["dev"]["f1"]) == ("O everywhere", 0.0)
    words = tagging.TaggingTask("pos", {"train": path}, is_token_level=True)
    train = words.read_examples("train")
    assert words.main_metric == "accuracy"
    baseline = words.baseline(train, {"dev": train})
    assert baseline["name"] == "majority class 'B-NP'"
    assert baseline["dev"]["accuracy"] == pytest.approx(100 / 3)
    outputs = {
        "labels_mask": np.array([[1.0, 1.0, 0.0]]),
        "predictions": np.array([[0, 0, 1]]),
        "logits": np.log([[[0.5, 0.5], [0.9, 0.1], [0.5, 0.5]]]),
    }
    assert words.is_degenerate(outputs)
    outputs["predictions"] = np.array([[0, 1, 0]])
    assert not words.is_degenerate(outputs)
    header, rows = words.prediction_table(train, outputs)
    assert header == ["label", "prediction", "least_score", "text"]
    assert list(rows) == [["B-NP I-NP O", "B-NP I-NP -", "0.500000", "a bx ."]]
    odd = train[0]._replace(words=("New York", "b", "c"))
    _, (row,) = words.prediction_table([odd], outputs)
    assert row[-1] == "New\u00a0York b c"
    features = {"pos_labels_mask": np.array([[1.0, 1.0, 0.0]])}
    (line,) = notices.of(words.look_at, "train", train, features)
    assert "pos: train: 1 of 3 words got no tag: they are behind 3 to" in line


def test_tags_of_spans_are_due(write):
    task = tagging.TaggingTask("t", {"train": write("t.txt", "a NP\n\n")})
    with pytest.raises(ValueError, match="B-NP, I-NP or O.*'NP'"):
        task.read_examples("train")
