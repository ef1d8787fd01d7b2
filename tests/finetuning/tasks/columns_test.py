import pytest

from electra_tf.finetuning.tasks import columns, table_files


@pytest.mark.parametrize(
    ("header", "row", "texts", "label"),
    [
        ("label\ttext", "x\ta", ["text"], "label"),
        ("id\tsentence2\tsentence1\tscore", "1\tb\ta\t1",
         ["sentence1", "sentence2"], "score"),
        ("title\tcomment\tbias\thate", "t\tc\tb\th", ["comment"], "hate"),
        # One usual name leaves one choice for the other.
        ("text\tmood", "a\tx", ["text"], "mood"),
        ("entry\tlabel", "a\tx", ["entry"], "label"),
    ],
)  # fmt: skip
def test_columns_by_name(write, header, row, texts, label):
    path = write("a.tsv", f"{header}\n{row}\n")
    table = table_files.read_table(path).with_header()
    assert columns.choose_columns(table) == (texts, label)


def test_columns_without_a_header(write):
    path = write("a.tsv", "x\ta b\ny\tc\nx\td\n")
    table = table_files.read_table(path)
    assert columns.choose_columns(table) == (["2"], "1")
    path = write("b.tsv", "a b\tb a\tx\nc a\td a\tx\n")
    table = table_files.read_table(path)
    assert columns.choose_columns(table) == (["1", "2"], "3")


def test_given_columns(write):
    path = write("a.tsv", "text\tlabel\tp\tq\na\tx\tb\ty\n")
    table = table_files.read_table(path).with_header()
    found = columns.choose_columns(table, ["p"], "q")
    assert found == (["p"], "q")
    with pytest.raises(ValueError, match="text_columns|'pp' for the text.*'p'"):
        columns.choose_columns(table, ["pp"])
    with pytest.raises(ValueError, match="one or two text columns. .*a, b, c"):
        columns.choose_columns(table, ["a", "b", "c"])


def test_names_that_differ_in_case_alone(write):
    path = write("a.tsv", "text\tLabel\tlabel\ngood\tx\ty\n")
    table = table_files.read_table(path).with_header()
    with pytest.raises(ValueError, match="'Label' and 'label': say which"):
        columns.choose_columns(table)
    assert columns.choose_columns(table, (), "label") == (["text"], "label")


@pytest.mark.parametrize("other", ["question", "content", "review"])
def test_two_usual_names_of_texts(write, other):
    path = write("a.tsv", f"Text\t{other}\tlabel\na\tb\tx\n")
    table = table_files.read_table(path).with_header()
    with pytest.raises(ValueError, match=f"'Text' and '{other}': say which in"):
        columns.choose_columns(table)
    for texts in (["Text"], [other, "Text"]):
        assert columns.choose_columns(table, texts) == (texts, "label")
    assert columns.choose_columns(table, (), other) == (["Text"], other)


def test_a_column_that_is_missing_is_that_of_labels_alone(write):
    train, bare, other = (
        table_files.read_table(write(f"{name}.tsv", text))
        for name, text in (
            ("train", "1\ta b\tx\n2\tc d\ty\n3\te f\tx\n"),
            ("bare", "1\ta b\n2\tx\n"),
            ("other", "a b\tx\nc d\ty\n"),
        )
    )
    needed = ["2", "3"]
    assert columns.like_train(bare, train, needed, False) == bare
    with pytest.raises(ValueError, match="other.tsv', whose last one has noth"):
        columns.like_train(other, train, needed, False)


@pytest.mark.parametrize("missing", ["texts", "labels"])
def test_no_usual_name(write, missing):
    other = "label" if missing == "texts" else "text"
    path = write("a.tsv", f"{other}\tp\tq\na\tx\ty\n")
    table = table_files.read_table(path).with_header()
    with pytest.raises(ValueError, match=f"column of the {missing} by its"):
        columns.choose_columns(table)
