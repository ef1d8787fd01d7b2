import pytest

from electra_tf.finetuning.tasks import labels


@pytest.mark.parametrize(
    ("rows", "kind", "separator"),
    [
        ([("a b", "x"), ("c", "y"), ("c d", "x")], "classification", ""),
        ([("a", "0"), ("b", "1.0"), ("c", "2")], "classification", ""),
        ([("a", "0.5"), ("b", "1"), ("c", "2")], "regression", ""),
        ([("a", str(i / 2)) for i in range(30)], "regression", ""),
        ([("a b", "X Y"), ("c", "X")], "tagging", ""),
        ([("a b", "X Y"), ("c", "X Y")], "classification", ""),
        ([("a", "x|y"), ("b", "x"), ("c", "")], "multi_label", "|"),
        ([("a", "x, y"), ("b", "x"), ("c", "y")], "multi_label", ","),
        # A comma inside names is none between them.
        ([("a", "x, y"), ("b", "z"), ("c", "x, y")], "classification", ""),
        ([("a b", ["X", "Y"]), ("c", ["X"])], "tagging", ""),
        ([("a b", ["X"]), ("c", [])], "multi_label", ""),
        # By chance as many labels as words.
        ([("a b", ["X", "Y"]), ("c", ["X"]), ("d", [])], "multi_label", ""),
    ],
)
def test_guess_type(rows, kind, separator):
    rows = [
        labels.OwnRow([text], label, number)
        for number, (text, label) in enumerate(rows, start=1)
    ]
    assert labels.guess_type(rows) == (kind, separator)


@pytest.mark.parametrize(
    "rows",
    [
        [(["a", "b"], ["X", "Y"]), (["c"], ["X"]), (["d", "e"], ["Y"])],
        [("a b", ["B-PER", "O"]), ("c", []), ("d e", ["O"])],
    ],
)
def test_a_row_with_a_tag_too_few_makes_no_labels_of_texts(rows):
    rows = [
        labels.OwnRow([text], label, number)
        for number, (text, label) in enumerate(rows, start=1)
    ]
    with pytest.raises(ValueError, match="beyond doubt") as caught:
        labels.guess_type(rows, path="a.jsonl")
    row = next(r for r in rows if len(labels.items(r.texts[0])) != len(r.label))
    assert f"labels in 'a.jsonl', row {row.number};" in str(caught.value)


def test_rows_that_all_say_the_same():
    assert labels.one_for_all("dev", ["x", "y"]) == []
    assert labels.one_for_all("dev", ["x"]) == []
    (line,) = labels.one_for_all("dev", ["x|y", "x|y"])
    assert line.startswith("dev: all 2 rows have the label 'x|y', by which")
    (line,) = labels.one_for_all("dev", ["", "", ""])
    assert line.startswith("dev: all 3 rows have no label, by which they are")
