"""Tests of build_docstring_corpus.py on literal docstrings and trees."""

import ast
import pathlib
import re

import build_docstring_corpus
import docstring_files
import docstring_prose
import labelled_texts
import pytest
from build_docstring_corpus import Document

from tests import helpers

# --- Cleaning -----------------------------------------------------------------


CLEANED = """\
@@ one_sentence_per_line
Sort the list in place. The sort is stable,
so that equal items keep their order.
-->
Sort the list in place.
The sort is stable, so that equal items keep their order.
@@ code
Return the sum of all items::

    with open(path) as file:
        the lines of it are read here

>>> sum([1, 2])
3

```python
the model is called in a fence
```

An empty list gives zero.
-->
Return the sum of all items:
An empty list gives zero.
@@ tables
This is a table of the modes.

====  =====================
name  the meaning of a name
====  =====================

| the mode | is the one | of them |
+----------+------------+---------+

This is after the table.
-->
This is a table of the modes.
This is after the table.
@@ numpydoc
f(x, axis=None)

Compute the mean of an array.

Parameters
----------
x : array_like, shape (n,)
    The values to average.
axis : int, optional
    The axis along which to work. The default
    is the whole array.

Returns
-------
ndarray
    The mean of the values.

See Also
--------
median : The middle of the values.

References
----------
.. [1] The book of means, by the author of it.
-->
Compute the mean of an array.
The values to average.
The axis along which to work.
The default is the whole array.
The mean of the values.
@@ google
Computes the loss of a batch.

Args:
  labels: The true classes.
  logits (tensor): The scores before
    the softmax.
  **kwargs: Other arguments of the loss.

Returns:
  A scalar, which is the mean loss.

Raises:
  ValueError: If the shapes are not equal.
-->
Computes the loss of a batch.
The true classes.
The scores before the softmax.
Other arguments of the loss.
A scalar, which is the mean loss.
If the shapes are not equal.
@@ field_list
Write the rows to a file.

:param rows: the rows to be written
:type rows: list of the rows
:returns: the number of rows
-->
Write the rows to a file.
the rows to be written
the number of rows
@@ inline_markup
Use ``fit`` and `predict` of :class:`~a.b.Model` as in
:ref:`the guide <guide>` or [this page](https://a.b/c).

It is *never* a **bad** idea [1]_, as is shown in [2]_.
It is |really| good [Knu97]_.
-->
Use fit and predict of Model as in the guide or this page.
It is really good.
@@ directives
Draw the lines of a figure.

.. versionadded:: 1.2
   This is said of the version.

.. note:: The figure is not shown.

.. code-block:: python

   this is in the code
-->
Draw the lines of a figure.
The figure is not shown.
@@ licence
The text is read in one go. See https://a.b/c for the details.

Copyright is not prose but this one is in the same paragraph.
It is not read.

It is sent to the server.
-->
The text is read in one go.
It is sent to the server.
@@ bullets
These are the modes of it:

* fast: the one that skips the checks
* `safe`: the one that makes all the checks
-->
These are the modes of it:
the one that skips the checks
the one that makes all the checks
@@ prose_like_code
The child process is started to
return the value of it.

x = 1
return x
-->
The child process is started to return the value of it.
"""


@pytest.mark.parametrize("case", CLEANED.split("@@ ")[1:])
def test_clean_docstring(case):
    docstring, expected = case.split("\n", 1)[1].split("-->\n")
    cleaned = docstring_prose.clean_docstring(docstring)
    assert cleaned == expected.splitlines()


def test_split_sentences_keeps_abbreviations_together():
    sentences = ["Use a list, e.g. The first one.", "See Fig. 3 of it!"]
    sentences += ["2 is even. so it is.", "The mean of a.", "The next."]
    text = " ".join(sentences)
    assert docstring_prose.split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Return the mean of the array.", True),
        ("If the value is None, nothing is done", True),
        ("See also.", False),
        ("For example:", False),
        ("alpha beta gamma delta epsilon zeta eta theta", False),
        ("The value is %(value)s of the default.", False),
        ("The kernel of a kind is kept in the K register.", True),
        ("The %s of the {klass} is given.", False),
        ("This is where x = y + z in the code.", False),
        ("[[0, 1, 2], [3, 4, 5]] is the array", False),
        ("\u042d\u0442\u043e is the one of them.", False),
        ("A file, as it is described in", False),
        ("the " * 101, False),
    ],
)
def test_is_prose(sentence, expected):
    assert docstring_prose.is_prose(sentence) is expected


def test_docstrings_in_the_order_of_the_source():
    source = '''
"""Module."""
class A:
    """Class."""
    def f(self):
        """Method."""
if True:
    def g():
        """Branch."""
add_newdoc("numpy", "add", """Ufunc.""")
x = """Not a docstring."""
'''
    found = filter(None, docstring_files.docstrings(ast.parse(source)))
    of_source = ["Module.", "Class.", "Method.", "Branch."]
    assert list(found) == [*of_source, "numpy", "add", "Ufunc."]


# --- Labelled texts -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Returns a tf.data.Dataset of it.", "Returns a Dataset of it."),
        ("A NumPy array or pandas.DataFrame.", "A library array or DataFrame."),
        ("TensorFlow's TFRecord and TPU", "library's library and TPU"),
        ("Use to_numpy and tf_keras here", "Use library and library here"),
        ("In plt.plot the pd and mpl", "In plot the library and library"),
        ("The tf-idf of a TF * IDF matrix", "The tfidf of a tfidf matrix"),
        ("SciPy / NumPy only", "library only"),
        ('Given "output" or input', "Given output or input"),
        ("jax2tf and tf2xla.convert", "library and library.convert"),
    ],
)
def test_mask_library_names(text, expected):
    assert labelled_texts.mask_library_names(text) == expected


def test_runs_are_whole_sentences_of_20_to_60_words():
    sentences = [" ".join(["word"] * size) for size in (15, 40, 30, 70, 10)]
    first, second, third, *_ = (f"{sentence}." for sentence in sentences)
    texts = labelled_texts.runs_of_sentences(sentences)
    assert list(texts) == [f"{first} {second}", third]


# --- Splits and repeats -------------------------------------------------------


def test_drop_repeats():
    shared = "This is a sentence of both the splits."
    common = "And a short one."
    own = "This one is only in the second of them."
    filler = "The rest of it is long enough to be kept here"

    def document(split, *sentences):
        return Document(f"p/{split}.py", "p", split, list(sentences))

    documents = [
        document("test", shared, common, own),
        document("train", shared, common),
        document("train", shared.upper(), common + "  "),
        document("train", "Too short."),
        *(document("train", f"{filler} {n}.", common) for n in "abcd"),
    ]
    kept = build_docstring_corpus.drop_repeats(documents)
    assert [d.sentences for d in kept] == [
        [shared, common],
        *([f"{filler} {n}.", common] for n in "ab"),
        *([f"{filler} {n}."] for n in "cd"),
        [own],
    ]


# --- The whole tool -----------------------------------------------------------

_WORDS = ["array", "figure", "model", "index", "label"]
_WORDS += ["value", "batch", "width", "shape", "title"]


def write_tree(
    root: pathlib.Path, packages=("numpy", "pandas")
) -> pathlib.Path:
    """Writes packages of 30 modules, each with two unlike docstrings."""
    for number in range(30 * len(packages)):
        package = packages[number // 30]
        first, second = _WORDS[number % 10], _WORDS[number // 10]
        path = root / package / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'"""The {first} of the {second} in {package} is number '
            f"{number} of its kind.\n\nIt holds the {second} for as long "
            f"as the {first} of {package} is used by the {number}-th one "
            f'of them, and is dropped after that."""\n'
            f"def f():\n"
            f'    """Return the {second} that belongs to the {first} '
            f'number {number} of {package}."""\n'
        )
    return root


def run(root, output_dir, *flags, processes=1):
    flags = [f"--output-dir={output_dir}", f"--root={root}", *flags]
    flags[2:2] = [f"--num-processes={processes}", "--heldout_fraction=0.4"]
    return build_docstring_corpus.main(flags)


def contents(directory: pathlib.Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def test_build(tmp_path):
    root = write_tree(tmp_path / "site")
    (root / "numpy" / "broken.py").write_text('"""Broken."""\ndef (')
    for folder in ("tests", "_vendor"):
        (root / "numpy" / folder).mkdir()
        (root / "numpy" / folder / "m.py").write_text(
            '"""This is the text of a module that is skipped with it all."""'
        )
    output_dir = tmp_path / "out" / "corpus"
    assert run(root, output_dir) == 0

    files = contents(output_dir)
    assert list(files) == [
        *(f"heldout/0{i}-of-02.txt" for i in range(2)),
        *(f"labelled/{split}.tsv" for split in ("dev", "test", "train")),
        *(f"train/0{i}-of-08.txt" for i in range(8)),
    ]
    assert [p.name for p in output_dir.parent.iterdir()] == ["corpus"]
    train, heldout = text = [
        "".join(v for k, v in files.items() if k.startswith(split))
        for split in ("train", "heldout")
    ]
    assert not (set(train.split("\n")) & set(heldout.split("\n"))) - {""}
    assert "skipped" not in train + heldout
    totals = helpers.read_json(output_dir / "manifest.json")["totals"]
    counts = [totals[split]["documents"] for split in ("train", "heldout")]
    assert counts == [part.count("\n\n") for part in text]
    assert sum(counts) == 120

    rows = {}
    for split in ("train", "dev", "test"):
        content = files[f"labelled/{split}.tsv"]
        header, *rows[split] = content.rstrip("\n").split("\n")
        assert header == "text\tlabel"
        for row in rows[split]:
            masked, label = row.split("\t")
            assert label in ("numpy", "pandas")
            assert not re.search("numpy|pandas", masked, re.IGNORECASE)
            assert 20 <= len(masked.split()) <= 60
    assert rows["dev"]
    for row in rows["dev"] + rows["test"]:
        number = re.search(r"number (\d+)", row).group(1)
        label = row.split("\t")[1]
        assert f"number {number} of {label}" not in train
    assert not set(rows["dev"]) & set(rows["test"])
    # blake2b of "0\0split\0pkg/m0.py"; must hold on every machine.
    drawn = build_docstring_corpus.draw("split", "pkg/m0.py")
    assert drawn == pytest.approx(0.361923, abs=1e-6)
    # The same bytes, whatever the number of processes.
    assert run(root, tmp_path / "two", processes=2) == 0
    assert contents(tmp_path / "two") == files
    # A folder that is there is left alone.
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("Mine.")
    assert run(root, tmp_path / "mine") == 1
    assert contents(tmp_path / "mine") == {"thesis.txt": "Mine."}
