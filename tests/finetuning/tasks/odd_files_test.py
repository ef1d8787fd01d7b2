"""Odd files: each is read right or refused in one clear line, none in silence.

A case is the files' contents by name, the settings, and either what is read or
what the line says.
"""

import codecs
import dataclasses
import gzip
import json

import pytest

from electra_tf.finetuning.tasks import own_data

GOOD = [("a b c", "x"), ("b c d", "y"), ("c d e", "x"), ("d e f", "y")]
AS_CLASSES = "classification ['x', 'y']: " + " / ".join(
    f"{text} = {label}" for text, label in GOOD
)
NUMBERS = [("a b", 1), ("b c", 0), ("c d", 1), ("d e", 0)]


@dataclasses.dataclass
class Case:
    """What is in the files, and what is expected.

    Attributes:
      name: Of the case.
      files: Name -> content; the first part of the name is the split.
      reads: The summary of what was read.
      refuses: What the error says, in this order.
      settings: Of `make_task`.
    """

    name: str
    files: dict
    reads: str = ""
    refuses: tuple = ()
    settings: dict = dataclasses.field(default_factory=dict)


def table(rows, separator="\t", header=(), end="\n") -> str:
    rows = [header, *rows] if header else rows
    return "".join(separator.join(map(str, row)) + end for row in rows)


def jsonl(*rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


NAMES = ("text", "label")
USUAL = table(GOOD, header=NAMES)
UTTERANCES = table(GOOD * 5, header=("utterance", "intent"))
KOREAN = [("안녕 하세요 여러분", "긍정"), ("싫어요 정말 싫어", "부정")] * 10
COMMON = "train.tsv"


ENCODINGS = [
    Case("UTF-8 with a mark", {COMMON: "\ufeff" + USUAL}, AS_CLASSES),
    Case(
        "UTF-16, little end first",
        {COMMON: codecs.BOM_UTF16_LE + USUAL.encode("utf-16-le")},
        AS_CLASSES,
    ),
    Case(
        "UTF-16, big end first",
        {COMMON: codecs.BOM_UTF16_BE + USUAL.encode("utf-16-be")},
        AS_CLASSES,
    ),
    Case(
        "UTF-16 without a mark",
        {COMMON: USUAL.encode("utf-16-le")},
        refuses=("UTF-8", "row 1", "0x00", "UTF-16"),
    ),
    Case(
        "Latin-1",
        {COMMON: (USUAL + "déjà vu\tx\n").encode("latin-1")},
        refuses=("UTF-8", "row 6", "0xe9", "iconv"),
    ),
    Case(
        "CP949",
        {COMMON: table(KOREAN, header=NAMES).encode("cp949")},
        refuses=("UTF-8", "row 2", "iconv -f CP949"),
    ),
    Case(
        "packed",
        {COMMON: gzip.compress(USUAL.encode())},
        refuses=("UTF-8", "is packed", "gunzip"),
    ),
    Case(
        "a NUL",
        {COMMON: USUAL + "a\0b\tx\n"},
        refuses=("row 6", "byte 0x00"),
    ),
    Case("CR ends lines", {COMMON: USUAL.replace("\n", "\r")}, AS_CLASSES),
    Case("CRLF ends lines", {COMMON: USUAL.replace("\n", "\r\n")}, AS_CLASSES),
    Case("no end of the last line", {COMMON: USUAL.rstrip()}, AS_CLASSES),
    Case(
        "other line separators are in texts",
        {COMMON: "text\tlabel\na\u2028b\x85c\tx\nd\x0be\ty\n"},
        "classification ['x', 'y']: a\u2028b\x85c = x / d\x0be = y",
    ),
]

EMPTINESS = [
    Case("empty lines", {COMMON: USUAL.replace("\n", "\n\n")}, AS_CLASSES),
    Case("rows of nothing", {"train.csv": "text,label\na,x\n,\nb,y\n,\n"},
         "classification ['x', 'y']: a = x / b = y"),
    Case("nothing at all", {COMMON: ""}, refuses=("is empty",)),
    Case("blank lines only", {COMMON: "\n \n"}, refuses=("is empty",)),
    Case("separators only", {"train.csv": ",,\n,,\n"},
         refuses=("rows with values", "none")),
    Case("a header only", {COMMON: "text\tlabel\n"},
         refuses=("rows after the header", "text, label")),
    Case("an empty text", {COMMON: "text\tlabel\na\tx\n \ty\n"},
         refuses=("a text", "row 3", "'text'", "skip_empty_texts")),
    Case("an empty label", {COMMON: "text\tlabel\na\tx\nb\t\n"},
         refuses=("a label", "empty", "row 3")),
]  # fmt: skip

QUOTES = [
    Case(
        "quotes around commas, quotes and line breaks",
        {"train.csv": 'text,label\n"a, b",x\n"say ""c""\nd",y\n'},
        "classification ['x', 'y']: a, b = x / say \"c\"\nd = y",
    ),
    Case(
        "quotes inside texts of a .tsv",
        {COMMON: 'text\tlabel\n"a" b\tx\n5" c\ty\n'},
        "classification ['x', 'y']: \"a\" b = x / 5\" c = y",
    ),
    Case(
        "quotes around everything in a .tsv",
        {COMMON: '"text"\t"label"\n"a"\t"x"\n"b"\t"y"\n'},
        refuses=("without quotes", "row 1", "is a .csv"),
    ),
    Case(
        "quotes around all texts in a .tsv, not around the header",
        {COMMON: 'text\tlabel\n"a"\tx\n"b"\ty\n'},
        refuses=("without quotes", "row 2", "is a .csv"),
    ),
    Case(
        "a line break in quotes in a .tsv",
        {COMMON: 'text\tlabel\n"a\nb"\tx\n'},
        refuses=("2 columns", "row 2", "is a .csv"),
    ),
    Case(
        "an open quote",
        {"train.csv": 'text,label\na,x\n"b,y\nc,x\n'},
        refuses=("quotes in pairs", "line 3 runs to line 4"),
    ),
    Case(
        "text behind a quote",
        {"train.csv": 'text,label\n"a" b,x\nc,y\n'},
        refuses=("quotes in pairs", "line 2"),
    ),
]

SEPARATORS = [
    Case(
        "semicolons, and commas in texts",
        {"train.csv": "text;label\na, b;x\nc, d, e;y\n"},
        "classification ['x', 'y']: a, b = x / c, d, e = y",
    ),
    Case("tabs in a .csv", {"train.csv": USUAL}, AS_CLASSES),
    Case(
        "a line that says the separator",
        {"train.csv": "sep=;\n" + table(GOOD, ";", NAMES)},
        AS_CLASSES,
    ),
    Case(
        "commas in the first row, semicolons between columns",
        {"train.csv": '"a, b, c";x\n"b, c";y\n"d, e";x\n'},
        "classification ['x', 'y']: a, b, c = x / b, c = y / d, e = x",
    ),
    Case(
        "two that may be it",
        {"train.csv": "a, b;x\nb, c;y\nc, d;x\n"},
        refuses=("','", "';'", "both may be", "sep=;"),
    ),
    Case(
        "commas in a .tsv",
        {COMMON: table(GOOD, ",", NAMES)},
        refuses=("separated by tabs", "row 1", "'text,label'"),
    ),
    Case(
        "one column",
        {"train.csv": "text\na\nb\n"},
        refuses=("separated by commas", "with one: 'text'"),
    ),
    Case(
        "one behind every row",
        {"train.csv": table(GOOD, ",", NAMES, end=",\n")},
        AS_CLASSES,
    ),
    Case(
        "one behind the rows, none behind the header",
        {"train.csv": "text,label\n" + table(GOOD, ",", end=",\n")},
        refuses=("2 columns", "3 in", "row 2"),
    ),
    Case(
        "a short row",
        {"train.csv": "text,label\na,x\nb\n"},
        refuses=("2 columns", "1 in", "row 3"),
    ),
    Case(
        "a long row behind a text of two lines",
        {"train.csv": 'text,label\n"a\nb",x\nc,d,y\n'},
        refuses=("2 columns", "3 in", "row 4"),
    ),
    Case("a workbook", {"train.xlsx": "PK"}, refuses=("ending in .tsv",)),
]

ONE_LABEL_HATES = table(
    [("you are all bad and mean", "hate"), ("c d", "none"), ("e f", "hate")]
)
HEADERS = [
    Case(
        "unusual names",
        {COMMON: UTTERANCES},
        refuses=(
            "row 1: utterance | intent",
            "--has_header reads it as a header: columns 'utterance', 'intent'",
            "--nohas_header reads it as a row: text 'utterance', label "
            "'intent'",
        ),
    ),
    Case(
        "unusual names, said to be some",
        {COMMON: table(GOOD, header=("utterance", "intent"))},
        AS_CLASSES,
        settings={"has_header": True},
    ),
    Case(
        "unusual names, one of them given",
        {COMMON: table(GOOD, header=("utterance", "intent"))},
        AS_CLASSES,
        settings={"label_column": "intent"},
    ),
    Case(
        "unusual names in a .csv",
        {"train.csv": table(GOOD, ",", ("message", "intent"))},
        refuses=("row 1: message | intent", "--has_header", "--nohas_header"),
    ),
    Case(
        "Korean names",
        {"train.csv": table(KOREAN, ",", ("문장", "라벨"))},
        refuses=("row 1: 문장 | 라벨", "--has_header", "--nohas_header"),
    ),
    Case(
        "unusual names above numbers",
        {COMMON: table(NUMBERS, header=("utterance", "intent"))},
        "classification ['0', '1']: a b = 1 / b c = 0 / c d = 1 / d e = 0",
    ),
    Case(
        "unusual names that the dev file has, too",
        {
            COMMON: table(GOOD, header=("utterance", "intent")),
            "dev.tsv": "utterance\tintent\nf g\tx\n",
        },
        AS_CLASSES + "; dev: f g = x",
    ),
    Case(
        "a question for a name",
        {"train.csv": table(GOOD, ",", ("What is it that you feel?", "Mood"))},
        refuses=("row 1: What is it that you feel? | Mood", "--has_header"),
    ),
    Case(
        "the first label is a usual name",
        {COMMON: ONE_LABEL_HATES},
        "classification ['hate', 'none']: you are all bad and mean = hate / "
        "c d = none / e f = hate",
    ),
    Case(
        "the first label is a usual name, the text is short",
        {COMMON: "bad\thate\nc d\tnone\ne f\thate\n"},
        refuses=("row 1: bad | hate", "columns 'bad', 'hate'", "text 'bad'"),
    ),
    Case(
        "a column's name is one of its labels",
        {COMMON: "comment\thate\nc d\tnone\ne f\thate\n"},
        "classification ['hate', 'none']: c d = none / e f = hate",
    ),
    Case(
        "none, as is said",
        {COMMON: "bad\thate\nc d\tnone\ne f\thate\n"},
        "classification ['hate', 'none']: bad = hate / c d = none / e f = hate",
        settings={"has_header": False},
    ),
    Case("spaces and case", {COMMON: table(GOOD, header=(" Text", "LABEL "))},
         AS_CLASSES),
    Case(
        "an index of pandas",
        {"train.csv": table(
            [(i, *row) for i, row in enumerate(GOOD)], ",", ("", *NAMES)
        )},
        AS_CLASSES,
    ),
    Case(
        "numbers of pandas for names",
        {"train.csv": table(GOOD, ",", (0, 1))},
        refuses=("row 1: 0 | 1", "--has_header", "--nohas_header"),
    ),
    Case("the same name twice", {COMMON: table(GOOD, header=("text", "text"))},
         refuses=("different names", "'text' twice", "row 1")),
    Case("it comes again", {COMMON: USUAL + USUAL},
         refuses=("the header once", "row 6")),
    Case(
        "columns by number below their names",
        {COMMON: USUAL},
        refuses=("row 1: text | label", "--has_header", "--nohas_header"),
        settings={"label_column": "2"},
    ),
    Case("it comes again behind a mark", {COMMON: USUAL + "\ufeff" + USUAL},
         refuses=("the header once", "row 6")),
    Case(
        "a dev file without it",
        {COMMON: USUAL, "dev.tsv": table(GOOD)},
        refuses=("a header with 'text', 'label'", "dev.tsv', row 1: a b c | x"),
    ),
    Case(
        "a dev file with it alone",
        {COMMON: table(GOOD), "dev.tsv": USUAL},
        refuses=("no header", "--has_header", "dev.tsv', row 1: text | label"),
    ),
    Case(
        "a dev file with other columns",
        {COMMON: USUAL, "dev.tsv": table(GOOD, header=("text", "lable"))},
        refuses=("the column 'label'", "dev.tsv", "mean 'lable'"),
    ),
    Case(
        "a dev file in another order",
        {COMMON: USUAL, "dev.csv": "label,id,text\nx,7,f g\n"},
        AS_CLASSES + "; dev: f g = x",
    ),
    Case(
        "a test file of texts alone, without it",
        {COMMON: table(GOOD), "test.tsv": "f g\ng h\n"},
        AS_CLASSES + "; test: f g / g h",
    ),
    Case(
        "a test file whose labels are empty",
        {COMMON: USUAL, "test.tsv": "text\tlabel\nf g\t\ng h\t\n"},
        AS_CLASSES + "; test: f g / g h",
    ),
    Case(
        "a test file whose labels are all the same",
        {COMMON: USUAL, "test.tsv": "text\tlabel\nf g\tx\ng h\tx\n"},
        AS_CLASSES + "; test: f g = x / g h = x; test: all 2 rows have the "
        "label 'x', by which they are scored: is it a placeholder?",
    ),
    Case(
        "a column of both that is called almost as the labels",
        {COMMON: "text\tlabel\tlabels\na b\tx\t1\nc d\ty\t2\n",
         "test.tsv": "text\tlabels\nf g\t3\n"},
        "classification ['x', 'y']: a b = x / c d = y; test: f g",
    ),
    Case(
        "a test file whose column of labels is called otherwise",
        {COMMON: USUAL, "test.tsv": "text\tLabel\nf g\tx\n"},
        refuses=("the column 'label'", "test.tsv", "mean 'Label'"),
    ),
    Case(
        "a dev file of more columns, without it",
        {COMMON: table(GOOD), "dev.tsv": "1\tf g\tx\n"},
        refuses=("2 columns", "3 in", "dev.tsv"),
    ),
]  # fmt: skip

WITH_IDS = [(i, *row) for i, row in enumerate(GOOD, 100)]
COLUMNS = [
    Case("an id", {"train.csv": table(WITH_IDS, ",")}, AS_CLASSES),
    Case(
        "an id, and unusual names",
        {"train.csv": table(WITH_IDS, ",", ("no", "message", "intent"))},
        AS_CLASSES,
    ),
    Case(
        "a name of each row",
        {"train.csv": table([(f"r-{i}", *row) for i, *row in WITH_IDS], ",")},
        refuses=(
            "'r-100' in column '1'",
            "--text_columns=1,2 reads a pair",
            "--text_columns=2 one text",
        ),
    ),
    Case(
        "a pair of texts",
        {COMMON: table([(text, f"{text} g", label) for text, label in GOOD])},
        "classification ['x', 'y']: a b c + a b c g = x / b c d + b c d g = y /"
        " c d e + c d e g = x / d e f + d e f g = y",
    ),
    Case(
        "scores of pairs, all different",
        {COMMON: "a b\tc d\t3\nb c\td e\t9\nc\td f\t7\n"},
        refuses=("column of the", "columns 1, 2, 3", "say which in --"),
    ),
    Case(
        "many columns without names",
        {COMMON: table([(*row, *row) for row in GOOD])},
        refuses=("the texts", "1, 2, 3, 4", "say which in --text_columns"),
    ),
    Case("two columns of usual names for labels",
         {COMMON: "text\tsentiment\tcategory\na\tx\ty\n"},
         refuses=("one column of labels", "'category' and 'sentiment'",
                  "--label_column")),
    Case("a text for its own label", {COMMON: USUAL},
         refuses=("different columns", "'text' twice"),
         settings={"text_columns": ["text"], "label_column": "text"}),
    Case(
        "numbers of rows for labels",
        {COMMON: table([(i, text) for i, (text, _) in enumerate(GOOD * 6)])},
        refuses=("numbers of the rows, 0, 1", "--label_column"),
    ),
    Case(
        "texts for labels",
        {"train.csv": "text,label\n" + table(
            [(f"a {i}", f"b {i % 15}") for i in range(20)], ","
        )},
        refuses=("labels that repeat", "15 different", "--label_column"),
    ),
]  # fmt: skip


def labels(*values, header=NAMES):
    """A .tsv of such labels; texts are a, b, ...."""
    rows = [("abcdefgh"[i % 8], value) for i, value in enumerate(values)]
    return {COMMON: table(rows, header=header)}


LABELS = [
    Case(
        "77 whole numbers",
        labels(*(i * 37 % 77 for i in range(300))),
        refuses=(
            "77 different whole numbers",
            "--task_type=classification reads a class in each",
            "--task_type=regression a quantity",
        ),
    ),
    Case("whole numbers, said to be classes", labels(0, 1, 2),
         "classification ['0', '1', '2']: a = 0 / b = 1 / c = 2",
         settings={"task_type": "classification"}),
    Case("fractions", labels("1.5", "2", "3.25"),
         "regression 1.5 to 3.25: a = 1.5 / b = 2 / c = 3.25"),
    Case(
        "commas in names",
        labels("Food, Drink", "Food, Dining", "Rent", "Food, Drink"),
        refuses=(
            "'Food, Dining'",
            "'Food' occurs in others",
            "--task_type=classification reads the name of one class",
            "--task_type=multi_label labels between ','",
        ),
    ),
    Case("commas in names, none of them shared", labels("x, y", "z", "x, y"),
         "classification ['x, y', 'z']: a = x, y / b = z / c = x, y"),
    Case("commas between labels", labels("x, y", "x", "y"),
         "multi_label ['x', 'y']: a = x|y / b = x / c = y"),
    Case("commas, said to be between labels", labels("x, y", "y, z"),
         "multi_label ['x', 'y', 'z']: a = x|y / b = y|z",
         settings={"task_type": "multi_label"}),
    Case("semicolons, said to be between labels", labels("x;y", "z"),
         "multi_label ['x', 'y', 'z']: a = x|y / b = z",
         settings={"task_type": "multi_label"}),
    Case("semicolons and commas", labels("x;y", "y,z"),
         refuses=("one separator", "';' and ','", "--label_separator"),
         settings={"task_type": "multi_label"}),
    Case("a separator that is nowhere", labels("x|y", "y|z"),
         refuses=("'+' between", "label_separator", "such as 'x|y'"),
         settings={"label_separator": "+"}),
    Case("a separator of rows with one label each", labels("x", "y", "x"),
         "multi_label ['x', 'y']: a = x / b = y / c = x",
         settings={"label_separator": "+", "task_type": "multi_label"}),
    Case("a separator that is given", labels("x+y", "y, z"),
         "multi_label ['x', 'y', 'y, z']: a = x|y / b = y, z",
         settings={"label_separator": "+"}),
    Case("bars", labels("x|y", "x", "y|z"),
         "multi_label ['x', 'y', 'z']: a = x|y / b = x / c = y|z"),
    Case("decimal commas", labels("3,5", "4,0", "2"),
         refuses=("'3,5'", "row 2", "--task_type=regression reads 3.5",
                  "labels '3' and '5'")),
    Case("decimal commas, said to be numbers", labels("3,5", "4,0", "2"),
         "regression 2.0 to 4.0: a = 3.5 / b = 4.0 / c = 2",
         settings={"task_type": "regression"}),
    Case("commas that may be of thousands", labels("1,250", "3,500", "2"),
         refuses=("'1,250'", "1.250 or 1250"),
         settings={"task_type": "regression"}),
    Case("nan", labels("x", "y", "nan"),
         refuses=("a label", "'nan'", "row 4")),
    Case("nan, whatever is said", labels("x", "y", "nan"),
         refuses=("a label", "'nan'", "row 4"),
         settings={"task_type": "classification"}),
    Case("nan among numbers", labels("0.5", "nan", "1.5"),
         refuses=("a label", "'nan'", "row 3")),
    Case("NA", labels("x", "y", "NA"),
         refuses=("'NA'", "row 4", "--task_type=classification")),
    Case("NA, said to be a class", labels("x", "NA"),
         "classification ['NA', 'x']: a = x / b = NA",
         settings={"task_type": "classification"}),
    Case("a dash", labels("x", "-", "y"),
         refuses=("'-'", "row 3", "--task_type=classification")),
    Case("lists as text", labels("['x', 'y']", "['x']"),
         refuses=("a list as text", "\"['x', 'y']\"", "row 2", ".jsonl")),
    Case("lists as text, whatever is said", labels("[0, 2]", "[]"),
         refuses=("a list as text", "'[0, 2]'", "row 2", ".jsonl"),
         settings={"task_type": "multi_label"}),
    Case("none", labels("x", "none"),
         "classification ['none', 'x']: a = x / b = none"),
    Case("a number in two ways", labels("1", "0", "1.0"),
         refuses=("one way to write a number", "'1' and '1.0'", "row 4")),
    Case("a word among fractions", labels("0.5", "1.5", "many", "2.5"),
         refuses=("a number, as in most rows", "'many'", "row 4")),
    Case("an underscore in names", labels("1_1", "11", "1_1"),
         "classification ['11', '1_1']: a = 1_1 / b = 11 / c = 1_1"),
    Case("spaces around them", labels("x ", " y", "x"),
         "classification ['x', 'y']: a = x / b = y / c = x"),
    Case("another case", labels("Spam", "spam", "ham"),
         "classification ['Spam', 'ham', 'spam']: a = Spam / b = spam / c = "
         "ham; the labels 'Spam' and 'spam' differ in case"),
    Case("characters that are not seen", labels("x", "x\u200b", "y"),
         "classification ['x', 'x\\u200b', 'y']: a = x / b = x\u200b / c = y; "
         "the labels 'x' and 'x\\u200b' differ in case"),
    Case("texts that were missing", {COMMON: "text\tlabel\nnan\tx\nb\ty\n"},
         "classification ['x', 'y']: nan = x / b = y; train: 1 texts are such "
         "as 'nan': had they none?"),
]  # fmt: skip


def objects(*values):
    return {"train.jsonl": jsonl(*({"text": "a", "label": v} for v in values))}


JSON = [
    Case("yes and no", objects(True, False),
         "classification ['false', 'true']: a = true / a = false"),
    Case("whole numbers beyond 64 bits", objects(10**30, 3),
         f"classification ['{10**30}', '3']: a = {10**30} / a = 3"),
    Case("a list", objects(["x", "y"], []),
         "multi_label ['x', 'y']: a = x|y / a = "),
    Case("nothing", objects("x", None),
         refuses=("a label", "empty", "row 2")),
    Case("nothing in a list", objects(["x", None], ["y"]),
         refuses=("a list of texts", '["x", null]', "row 1")),
    Case("an object", objects({"x": 1}, "y"),
         refuses=("Expected a text", '{"x": 1}', "row 1")),
    Case("NaN", objects("x", float("nan")),
         refuses=("a label", "'NaN'", "row 2")),
    Case("a name less",
         {"train.jsonl": '{"text": "a", "label": 1}\n{"text": ""}'},
         refuses=("text, label", "row 2, without label")),
    Case("a name twice", {"train.jsonl": '{"text": "a", "text": "b"}\n'},
         refuses=("'text' twice", "row 1")),
    Case("half a character",
         {"train.jsonl": '{"text": "\\ud83d", "label": "x"}\n'},
         refuses=("row 1", "half a character")),
    Case("one list of all", {"train.jsonl": '[{"text": "a", "label": "x"}]'},
         refuses=("a JSON object in each row", "row 1")),
    Case("over several lines", {"train.jsonl": '{\n"text": "a"\n}\n'},
         refuses=("a JSON object in each row", "row 1")),
]  # fmt: skip

IOB = "a B-PER\nb I-PER\nc O\n\nd O\n"
SPANS = "spans ['PER']: a=B-PER b=E-PER c=O / d=O"


def words(content, **more):
    return {"train.txt": content} | {
        f"{split}.txt": text for split, text in more.items()
    }


CONLL = [
    Case("BIO", words(IOB), SPANS),
    Case(
        "comments as in MultiCoNER",
        words(
            "# id 5239d808\tdomain=en\na _ _ B-PER\nb _ _ I-PER\nc _ _ O\n\n"
            "# id 1390fd24\tdomain=en\nd _ _ O\n"
        ),
        SPANS + "; 2 rows of comments left out",
    ),
    Case(
        "comments with as many columns",
        words("# id 5239d808 en\na _ _ B-PER\nb _ _ I-PER\nc _ _ O\n\nd _ _ O"),
        SPANS + "; 1 rows of comments left out",
    ),
    Case(
        "# is a word",
        words("# O\na B-PER\n# I-PER\n\n#a O\n"),
        "spans ['PER']: #=O a=B-PER #=E-PER / #a=O",
    ),
    Case("BIOES", words(IOB.replace("I-", "E-")), SPANS),
    Case(
        "BILOU",
        words("a B-PER\nb I-PER\nc L-PER\n\nd U-LOC\ne O\n"),
        "spans ['LOC', 'PER']: a=B-PER b=I-PER c=E-PER / d=S-LOC e=O; "
        "written 'L-PER', 'U-LOC'",
    ),
    Case(
        "BMES",
        words("a B-PER\nb M-PER\nc E-PER\n\nd S-LOC\ne O\n"),
        "spans ['LOC', 'PER']: a=B-PER b=I-PER c=E-PER / d=S-LOC e=O; "
        "written 'M-PER'",
    ),
    Case("a lower-case o", words(IOB.replace("O", "o")), SPANS),
    Case("underscores", words(IOB.replace("-", "_")), SPANS),
    Case("the kind first", words("a PER-B\nb PER-I\nc -\n\nd -\n"), SPANS),
    Case(
        "no kinds",
        words("a B\nb I\nc O\n\nd O\n"),
        SPANS.replace("PER", "_"),
    ),
    Case(
        "one tag of no span",
        words("a B-PER\nb I-PER\nc B-LOC\nd XX\n\ne O\n"),
        refuses=("B-PER, I-PER and O", "'XX'", "begins in row 1"),
    ),
    Case(
        "parts of speech",
        words("a DET\nb NN\n\nc NN\n"),
        "words ['DET', 'NN']: a=DET b=NN / c=NN",
    ),
    Case(
        "a no-break space in a word",
        words("a\u00a0b B-PER\nc O\n\nd O\n"),
        "spans ['PER']: a\u00a0b=S-PER c=O / d=O",
    ),
    Case(
        "tabs, and a space in a word",
        words("a b\tB-PER\nc\tO\n\nd\tO\t\n"),
        "spans ['PER']: a b=S-PER c=O / d=O",
    ),
    Case(
        "no blank row at the end, and blanks in blank rows",
        words(IOB.replace("\n\n", "\n \t\n").rstrip()),
        SPANS,
    ),
    Case(
        "a word less",
        words("a B-PER\n\tO\nb O\n"),
        refuses=("a word", "row 2"),
    ),
    Case(
        "a tag less",
        words("a NN B-PER\nb NN\nc NN O\n"),
        refuses=("3 columns", "'b NN'", "row 2"),
    ),
    Case(
        "a test file without tags",
        words(IOB, test="e\nf\n\ng\n"),
        SPANS + "; test: e f / g",
    ),
    Case(
        "a test file with tags that stand for none",
        words(IOB, test="e _\nf _\n\ng _\n"),
        SPANS + "; test: e f / g",
    ),
    Case(
        "a test file with other columns alone",
        words("a NN B-PER\nb NN O\n", test="e NN\nf VB\n"),
        "spans ['PER']: a=S-PER b=O; test: e f",
    ),
    Case(
        "a dev file without tags",
        words(IOB, dev="e\nf\n"),
        refuses=("a word and a tag", "'e'", "dev.txt', row 1"),
    ),
    Case(
        "texts and labels",
        words("a b c\tx\nb c d\ty\nc d e\tx\n"),
        refuses=("a word and its tag", "'a b c'", "is a .tsv"),
    ),
    Case(
        "no blank rows",
        words("a O\n" * 1001),
        refuses=("a blank row after each", "1001 rows"),
    ),
    Case(
        "words and tags in a .tsv",
        {COMMON: "a\tB-PER\nb\tI-PER\nc\tO\n\nd\tO\n"},
        refuses=("'a' and 'B-PER'", ".txt or .conll"),
    ),
    Case(
        "CoNLL-U",
        words(
            "# sent_id = 1\n1\ta\ta\tDET\n2-3\tbc\t_\t_\n2\tb\tb\tNOUN\n"
            "3\tc\tc\tVERB\n3.1\td\td\t_\n\n1\te\te\tX\n"
        ),
        refuses=("a word and its tag", "row 2", "CoNLL-U", "cut -f2,4"),
    ),
    Case(
        "numbers that are words",
        words("1 NUM\n3 NUM\na DET\n\n1 NUM\n2 NUM\n"),
        "words ['DET', 'NUM']: 1=NUM 3=NUM a=DET / 1=NUM 2=NUM",
    ),
    Case(
        "one tag",
        words("a _\nb _\n\nc _\n"),
        refuses=("different tags", "'_' for all words", "train.txt"),
    ),
    Case(
        "tags first",
        words("B-PER a\nO b\n\nO c\nI-PER d\n"),
        refuses=("the tag last", "tags in place of words, such as 'O'"),
    ),
]

CASES = {
    f"{kind}: {case.name}": case
    for kind, cases in {
        "encoding": ENCODINGS,
        "emptiness": EMPTINESS,
        "quotes": QUOTES,
        "separators": SEPARATORS,
        "header": HEADERS,
        "columns": COLUMNS,
        "labels": LABELS,
        "JSON": JSON,
        "CoNLL": CONLL,
    }.items()
    for case in cases
}


def summary(task) -> str:
    """What was read, in one line; each split, then what is remarked."""
    kind = task.description()["kind"].removesuffix("_classification")
    splits = {split: task.read_examples(split) for split in task.splits()}
    parts = []
    for split, examples in splits.items():
        rows = []
        for example in examples:
            if kind == "tagging":
                pairs = zip(example.words, example.labels, strict=True)
                row = " ".join(
                    "=".join(pair) if example.has_labels else pair[0]
                    for pair in pairs
                )
            else:
                texts = [example.text_a, example.text_b or ""]
                row = " + ".join(text for text in texts if text)
                row += f" = {example.label}" * example.has_label
            rows.append(row)
        parts.append(f"{split}: " * (split != "train") + " / ".join(rows))
    if kind == "tagging":
        names = task.labels
        if not task.is_token_level:
            names = sorted({name[2:] for name in names if name != "O"})
        what = f"{'words' if task.is_token_level else 'spans'} {names}"
        remarks = task.origin.split(")", 1)[1].lstrip(",; ")
    else:
        what = f"{kind} {getattr(task, 'labels', '')}".strip()
        if kind == "regression":
            what += f" {task.min_value} to {task.max_value}"
        remarks = "; ".join(task.warnings(splits))
    return f"{what}: " + "; ".join([*parts, *filter(None, [remarks])])


@pytest.mark.parametrize("name", CASES)
def test_read_right_or_refused_in_one_line(name, tmp_path):
    case = CASES[name]
    paths = {}
    for file, content in case.files.items():
        path = tmp_path / file
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
        paths[path.stem] = str(path)
    if not case.refuses:
        assert summary(
            own_data.make_task("own", paths, **case.settings)
        ).startswith(case.reads)
        return
    with pytest.raises(ValueError, match=r"Expected .*Received: ") as caught:
        task = own_data.make_task("own", paths, **case.settings)
        print(summary(task))
    line = str(caught.value)
    assert "\n" not in line
    assert len(line.replace(str(tmp_path), "")) < 400
    rest = line
    for part in case.refuses:
        assert part in rest, line
        rest = rest.partition(part)[2]
