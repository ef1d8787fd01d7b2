"""Files of one's own: each is read right or refused in one clear line."""

import codecs
import gzip
import json

import pytest

from electra_tf.tasks import own_files, tables
from electra_tf.tasks.task import read_lines

USUAL = "text\tlabel\na b\tx\nb c\ty\n"
READ = "classification ['x', 'y']: a b = x / b c = y"


def jsonl(*rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def labels(*values) -> str:
    rows = "".join(f"a\t{value}\n" for value in values)
    return f"text\tlabel\n{rows}"


def summary(task) -> str:
    """The kind of a task, its labels, and the rows of each split."""
    kind = task.description()["kind"].removesuffix("_classification")
    parts = []
    for split in task.splits():
        rows = []
        for e in task.read_examples(split):
            if kind == "tagging":
                rows.append(" ".join(map("=".join, zip(e.words, e.labels))))  # noqa: B905
                continue
            texts = " + ".join(filter(None, [e.text_a, e.text_b]))
            rows.append(f"{texts} = {e.label}" if e.has_label else texts)
        parts.append(f"{split}: " * (split != "train") + " / ".join(rows))
    if kind == "regression":
        return f"{kind}: " + "; ".join(parts)
    return f"{kind} {task.labels}: " + "; ".join(parts)


# File of training, its content, settings, what is read.
READS = {
    "tsv": ("a.tsv", USUAL, {}, READ),
    "a byte order mark": ("a.tsv", "\ufeff" + USUAL, {}, READ),
    "UTF-16": ("a.tsv", codecs.BOM_UTF16_LE + USUAL.encode("utf-16-le"), {},
               READ),
    "CRLF": ("a.tsv", USUAL.replace("\n", "\r\n"), {}, READ),
    "CR": ("a.tsv", USUAL.replace("\n", "\r"), {}, READ),
    "blank lines": ("a.tsv", USUAL.replace("\n", "\n\n"), {}, READ),
    "no end of the last line": ("a.tsv", USUAL.rstrip(), {}, READ),
    "case and spaces of names": (
        "a.tsv", USUAL.replace("text\tlabel", " Text\tLABEL "), {}, READ),
    "other separators of lines are in texts": (
        "a.tsv", "text\tlabel\na\u2028b\x85c\tx\nd\x0be\ty\n", {},
        "classification ['x', 'y']: a\u2028b\x85c = x / d\x0be = y"),
    "quotes in a tsv mean nothing": (
        "a.tsv", 'text\tlabel\n"a" b\tx\n5" c\ty\n', {},
        "classification ['x', 'y']: \"a\" b = x / 5\" c = y"),
    "csv": (
        "a.csv", 'text,label\n"a, b",x\n"say ""c""\nd",y\n', {},
        "classification ['x', 'y']: a, b = x / say \"c\"\nd = y"),
    "csv with semicolons": (
        "a.csv", "text;label\na, b;x\nc, d, e;y\n", {},
        "classification ['x', 'y']: a, b = x / c, d, e = y"),
    "csv with tabs": ("a.csv", USUAL, {}, READ),
    "csv with an index": (
        "a.csv", ",text,label\n0,a b,x\n1,b c,y\n", {}, READ),
    "jsonl": (
        "a.jsonl", jsonl({"text": "a b", "label": "x"},
                         {"label": "y", "text": "b c"}), {}, READ),
    "a list of rows": (
        "a.json", json.dumps([{"text": "a b", "label": "x"},
                              {"text": "b c", "label": "y"}], indent=1), {},
        READ),
    "an object of columns": (
        "a.json", json.dumps({"text": ["a b", "b c"], "label": ["x", "y"]}),
        {}, READ),
    "lines in a json": (
        "a.json", jsonl({"text": "a b", "label": "x"},
                        {"text": "b c", "label": "y"}), {}, READ),
    "no header": (
        "a.tsv", "a b\tx\nb c\ty\n", {"has_header": False}, READ),
    "no header, columns by number": (
        "a.csv", "x,7,a b\ny,7,b c\n",
        {"has_header": False, "text_columns": ["3"], "label_column": "1"},
        READ),
    "columns by name": (
        "a.tsv", "text\tbody\tmood\nq\ta b\tx\nr\tb c\ty\n",
        {"text_columns": ["body"], "label_column": "mood"}, READ),
    "a pair": (
        "a.tsv", "id\tsentence2\tsentence1\tlabel\n1\tb\ta\tx\n2\td\tc\ty\n",
        {}, "classification ['x', 'y']: a + b = x / c + d = y"),
    "a pair of which one is a usual name": (
        "a.tsv", "question\tsentence\tlabel\na\tb\tx\nc\td\ty\n", {},
        "classification ['x', 'y']: a + b = x / c + d = y"),
    "cells of missing values": (
        "a.csv", "text,label\nnull,x\nNA,None\nnan,x\nNone,NA\n", {},
        "classification ['NA', 'None', 'x']: null = x / NA = None / nan = x / "
        "None = NA"),
    "whole numbers in their order": (
        "a.tsv", labels(10, 9, 2, 1, -1), {},
        "classification ['-1', '1', '2', '9', '10']: a = 10 / a = 9 / a = 2 / "
        "a = 1 / a = -1"),
    "yes and no": (
        "a.jsonl", jsonl({"text": "a", "label": True},
                         {"text": "a", "label": False}), {},
        "classification ['false', 'true']: a = true / a = false"),
    "numbers with a point": (
        "a.tsv", labels("1.5", "2", "3.25"), {},
        "regression: a = 1.5 / a = 2 / a = 3.25"),
    "numbers with a point, said to be classes": (
        "a.tsv", labels("1.0", "0.0"), {"task_type": "classification"},
        "classification ['0.0', '1.0']: a = 1.0 / a = 0.0"),
    "whole numbers, said to be quantities": (
        "a.tsv", labels(1, 3), {"task_type": "regression"},
        "regression: a = 1 / a = 3"),
    "bars": (
        "a.tsv", labels("x|y", "x", "y | 10", ""), {},
        "multi_label ['10', 'x', 'y']: a = x|y / a = x / a = y|10 / a = "),
    "a separator": (
        "a.tsv", labels("x; y", "z"), {"label_separator": ";"},
        "multi_label ['x', 'y', 'z']: a = x|y / a = z"),
    "commas are in names": (
        "a.tsv", labels("x, y", "z"), {},
        "classification ['x, y', 'z']: a = x, y / a = z"),
    "lists": (
        "a.jsonl", jsonl({"text": "a", "labels": ["x", 2]},
                         {"text": "b", "labels": []}), {},
        "multi_label ['2', 'x']: a = x|2 / b = "),
    "lists of words": (
        "a.jsonl", jsonl({"tokens": ["a", "b"], "tags": ["B-X", "I-X"]},
                         {"tokens": ["c"], "tags": ["O"]}), {},
        "tagging ['B-X', 'I-X', 'E-X', 'S-X', 'O']: a=B-X b=E-X / c=O"),
    "words and tags between spaces": (
        "a.tsv", "text\ttags\na b\tV N\nc\tN\n", {"task_type": "tagging"},
        "tagging ['N', 'V']: a=V b=N / c=N"),
    "names of numbers": (
        "a.jsonl", jsonl({"tokens": ["a", "b"], "ner_tags": [1, 2]},
                         {"tokens": ["c", "d"], "ner_tags": [0, -100]}),
        {"label_names": ["O", "B-X", "I-X"]},
        "tagging ['B-X', 'I-X', 'E-X', 'S-X', 'O']: a=B-X b=E-X / c=O d=-100"),
    "names of classes that are numbers": (
        "a.tsv", labels(1, 0), {"label_names": ["no", "yes"]},
        "classification ['no', 'yes']: a = yes / a = no"),
}  # fmt: skip


def written(path, content):
    path.write_bytes(content.encode() if type(content) is str else content)
    return path


@pytest.mark.parametrize("case", READS)
def test_reads(tmp_path, case):
    name, content, settings, expected = READS[case]
    path = written(tmp_path / name, content)
    task = own_files.make_task("own", {"train": path}, **settings)
    assert summary(task) == expected


# File of training, its content, settings, words of the message in their order.
REFUSES = {
    "Latin-1": ("a.tsv", (USUAL + "déjà\tx\n").encode("latin-1"), {},
                ["UTF-8", "row 4", "0xe9", "iconv"]),
    "UTF-16 without a mark": ("a.tsv", USUAL.encode("utf-16-le"), {},
                              ["UTF-8", "row 1", "UTF-16LE"]),
    "packed": ("a.tsv", gzip.compress(USUAL.encode()), {}, ["gunzip"]),
    "nothing": ("a.tsv", "\n \n", {}, ["is empty"]),
    "a header alone": ("a.tsv", "text\tlabel\n", {}, ["below the header"]),
    "a workbook": ("a.xlsx", "PK", {}, [".tsv, .csv", "a.xlsx"]),
    "a short row": ("a.csv", "text,label\na,x\nb\n", {},
                    ["2 columns", "1 in", "row 3"]),
    "a line break in quotes in a tsv": (
        "a.tsv", 'text\tlabel\n"a\nb"\tx\n', {},
        ["2 columns", "row 2", "a .csv alone"]),
    "an open quote": ("a.csv", 'text,label\na,x\n"b,y\nc,x\n', {},
                      ["quotes in pairs", "row 3"]),
    "a name twice": ("a.tsv", "text\ttext\na\tx\n", {},
                     ["'text' twice", "--has_header"]),
    "no header": ("a.tsv", "good film\tx\nbad film\ty\n", {},
                  ["--text_columns", "'good film', 'x'", "--has_header=False"]),
    "no column of texts": ("a.tsv", "title\tbody\tlabel\na\tb\tx\n", {},
                           ["--text_columns", "'title', 'body', 'label'"]),
    "two columns of texts": ("a.tsv", "text\tSentence\tlabel\na\tb\tx\n", {},
                             ["--text_columns", "'text' or 'Sentence'"]),
    "no column of labels": ("a.jsonl", jsonl({"text": "a", "mood": "x"}), {},
                            ["--label_column", "'text', 'mood'"]),
    "two columns of labels": ("a.tsv", "text\tlabel\tscore\na\tx\t1\n", {},
                              ["--label_column", "'label' or 'score'"]),
    "a name that is none": ("a.tsv", USUAL, {"label_column": "lable"},
                            ["'lable'", "--label_column", "mean 'label'"]),
    "a text for its own label": (
        "a.tsv", USUAL, {"text_columns": ["text"], "label_column": "text"},
        ["another one", "--label_column=text"]),
    "an empty text": ("a.tsv", USUAL + " \ty\n", {},
                      ["row 4", "--skip_empty_texts"]),
    "an empty label": ("a.tsv", USUAL + "c\t\n", {}, ["a label", "row 4"]),
    "one number": ("a.tsv", labels("1", "1.0"), {}, ["different", "1.0 only"]),
    "one label": ("a.tsv", labels("x", "x"), {}, ["different", "'x' only"]),
    "a word for a number": (
        "a.tsv", labels("1.5", "3,5"), {"task_type": "regression"},
        ["a number", "'3,5'", "row 3"]),
    "a label without a name": ("a.tsv", labels(0, 2),
                               {"label_names": ["no", "yes"]},
                               ["from 0 to 1", "--label_names", "'2'"]),
    "a tag too few": (
        "a.jsonl", jsonl({"tokens": ["a", "b"], "tags": ["X"]}), {},
        ["--task_type", "2 words and 1 tags", "row 1"]),
    "one tag that is none of spans": (
        "a.txt", "a B-X\nb I-X\n\nc XX\n", {}, ["B-NP", "'XX'", "row 4"]),
    "an empty tag": (
        "a.jsonl", jsonl({"tokens": ["a"], "tags": [" "]}), {},
        ["none empty", "row 1"]),
    "no JSON": ("a.jsonl", '{"text": "a"}\n{"text" 1}\n', {},
                ["row 2", "Expecting ':'"]),
    "no object": ("a.jsonl", "[1]\n", {}, ["JSON object", "row 1"]),
    "other names": ("a.jsonl", jsonl({"text": "a", "label": 1}, {"text": "b"}),
                    {}, ["text, label", "row 2"]),
    "half a character": ("a.jsonl", '{"text": "\\ud83d", "label": "x"}\n', {},
                         ["row 1", "half a character"]),
    "an object for a text": ("a.jsonl", jsonl({"text": {"a": 1}, "label": 1}),
                             {}, ["a text", '{"a": 1}', "row 1"]),
    "SQuAD's layout": ("a.json", json.dumps({"version": "1", "data": []}), {},
                       ["list of rows", "--task_names=squad"]),
    "rows of questions": (
        "a.jsonl", jsonl({"question": "a", "context": "b", "answers": []}), {},
        ["questions on passages", "--task_names=squad"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSES)
def test_refuses_in_one_line(tmp_path, case):
    name, content, settings, words = REFUSES[case]
    path = written(tmp_path / name, content)
    with pytest.raises(ValueError, match=r"Expected .*Received: ") as caught:
        task = own_files.make_task("own", {"train": path}, **settings)
        task.read_examples("train")
    line = rest = str(caught.value)
    assert "\n" not in line
    assert len(line.replace(str(tmp_path), "")) < 300
    for word in words:
        assert word in rest, line
        rest = rest.partition(word)[2]


def test_every_carriage_return_is_dropped(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"one\rtwo\r\nthree\r\r\n\r\nfour")
    assert read_lines(path) == ["onetwo", "three", "", "four"]


def test_a_row_is_where_it_begins(write):
    path = write("a.csv", 'text,label\n"a\nb",x\n\nc,y\n')
    table = tables.read(path)
    rows = [(number, list(row.values())) for number, row in table.rows]
    assert rows == [(2, ["a\nb", "x"]), (5, ["c", "y"])]


def test_a_text_longer_than_the_csv_module_takes(write):
    text = "a " * 100_000
    path = write("a.csv", f"text,label\n{text},x\n")
    assert tables.read(path).rows == [(2, {"text": text, "label": "x"})]


@pytest.mark.parametrize(
    ("test", "has_labels"),
    [
        ("text\tlabel\nf g\tx\n", True),
        ("id\tText\tLABEL\n7\tf g\tx\n", True),
        ("text\nf g\n", False),
        ("text\tlabel\nf g\t\n", False),
        ("text\tlabel\nf g\t-100\n", False),
    ],
)
def test_a_test_file_may_lack_labels(write, test, has_labels):
    paths = {"train": write("a.tsv", USUAL), "test": write("b.tsv", test)}
    task = own_files.make_task("own", paths)
    assert task.has_labels("test") == has_labels
    expected = READ + "; test: f g" + " = x" * has_labels
    assert summary(task) == expected


@pytest.mark.parametrize(
    ("dev", "message"),
    [
        ("text\nf g\n", "'label'.*--label_column.*dev.tsv"),
        ("f g\tx\ng h\ty\n", "'text'.*--text_columns.*dev.tsv"),
        ("text\tlabel\na\tx\nb\tz\n", "labels 'x', 'y'.*'z'.*dev.tsv', row 3"),
    ],
)
def test_a_dev_file_that_is_not_like_training(write, dev, message):
    paths = {"train": write("a.tsv", USUAL), "dev": write("dev.tsv", dev)}
    task = own_files.make_task("own", paths)
    with pytest.raises(ValueError, match=message):
        task.read_examples("dev")
