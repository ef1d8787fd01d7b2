import pytest

from electra_tf.finetuning.tasks import table_files


def _read(path):
    return table_files.read_table(path).with_header()


def test_tsv_has_no_quotes(write):
    table = _read(write("a.tsv", 'Text\tlabel\r\nsay "a\tx\r\n\r\n"b"\ty\r\n'))
    assert table.columns == ["Text", "label"]
    assert table.rows == [(2, ['say "a', "x"]), (4, ['"b"', "y"])]


def test_csv_has_quotes_and_texts_of_several_lines(write):
    content = 'text,label\n"a, ""b""\nc",x\n\nd,y\n'
    table = _read(write("a.csv", content))
    assert table.rows == [(2, ['a, "b"\nc', "x"]), (5, ["d", "y"])]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_of_other_delimiters(write, delimiter):
    content = 'text,label\n"a, b",x\n'.replace(",l", f"{delimiter}l")
    content = content.replace(",x", f"{delimiter}x")
    assert _read(write("a.csv", content)).rows == [(2, ["a, b", "x"])]


def test_jsonl(write):
    content = '{"text": "a", "label": 1}\n\n{"label": [1.5, "x"], "text": null}'
    table = _read(write("a.jsonl", content))
    assert table.columns == ["text", "label"]
    assert table.rows == [(1, ["a", "1"]), (3, [None, ["1.5", "x"]])]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", "a", "ending in .tsv, .csv, .jsonl. Received: '.*a.xlsx'"),
        ("a.tsv", "", "which is empty"),
        ("a.tsv", "text\tlabel\n", "rows after the header. .*text, label"),
        ("a.tsv", "text\ttext\na\tb\n", "'text' twice in .*a.tsv', row 1"),
        ("a.tsv", "text\tlabel\na\tb\tc\n", "2 columns. Received: 3 .*row 2.$"),
        ("a.tsv", 'text\tlabel\n"a\nb"\tx\n', "row 2. It opens a quote .*.csv"),
        ("a.csv", "text,label\na,b\nc\n", "2 columns. Received: 1 in .*row 3"),
        (
            "a.csv",
            'text,label\na,x\n"b,y\nc,z\n',
            "quotes in pairs.*begins in line 3 runs to line 4: unexpected end",
        ),
        ("a.csv", 'text,label\n"a" b,x\n', "in pairs.*line 2 runs to line 2"),
        ("a.jsonl", "[1]\n", r"JSON object .*row 1: '\[1\]'"),
        ("a.jsonl", '{"a": 1}\n{"a" 1}\n', "row 2: Expecting ':'"),
        ("a.jsonl", '{"a": 1, "a": 2}\n', "'a' twice in .*, row 1"),
        (
            "a.jsonl",
            '{"a": 1, "b": 2}\n{"a": 1}\n',
            "names a, b, as in the first row.*row 2, without b",
        ),
        ("a.jsonl", '{"a": 1}\n{"a": 1, "c": 2}\n', "row 2, with c"),
    ],
)
def test_bad_tables(write, name, content, message):
    with pytest.raises(ValueError, match=message):
        _read(write(name, content))


def test_a_missing_column_lists_those_there_are(write):
    table = _read(write("a.tsv", "text\tlabel\na\tx\n"))
    message = (
        "column 'lable' for the labels.*with the columns text, label. "
        "Did you mean 'label'"
    )
    with pytest.raises(ValueError, match=message):
        table.column("lable", "labels")
