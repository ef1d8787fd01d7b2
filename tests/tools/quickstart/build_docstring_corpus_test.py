"""Tests of build_docstring_corpus.py on literal docstrings and trees."""

import ast
import collections
import json
import pathlib
import re
import textwrap

import build_docstring_corpus
import docstring_documents
import docstring_files
import docstring_prose
import labelled_texts
import pytest


def clean(text: str) -> list[str]:
    return docstring_prose.clean_docstring(textwrap.dedent(text))


# --- Cleaning -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        pytest.param(
            """
            Sort the list in place. The sort is stable,
            so that equal items keep their order.
            """,
            [
                "Sort the list in place.",
                "The sort is stable, so that equal items keep their order.",
            ],
            id="one_sentence_per_line",
        ),
        pytest.param(
            """
            Return the sum of all items.

            >>> sum([1, 2])
            3

            An empty list gives zero.
            """,
            ["Return the sum of all items.", "An empty list gives zero."],
            id="doctest",
        ),
        pytest.param(
            """
            Open a file for reading::

                with open(path) as file:
                    the lines of it are read here

            The file is closed at the end.
            """,
            ["Open a file for reading:", "The file is closed at the end."],
            id="literal_block",
        ),
        pytest.param(
            """
            The model is built once.

            ```python
            the model is called in a fence
            ```

            Then it is called often.
            """,
            ["The model is built once.", "Then it is called often."],
            id="fence",
        ),
        pytest.param(
            """
            This is a table of the modes.

            ====  =====================
            name  the meaning of a name
            ====  =====================

            | the mode | is the one | of them |
            +----------+------------+---------+

            This is after the table.
            """,
            ["This is a table of the modes.", "This is after the table."],
            id="tables",
        ),
        pytest.param(
            """
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
            """,
            [
                "Compute the mean of an array.",
                "The values to average.",
                "The axis along which to work.",
                "The default is the whole array.",
                "The mean of the values.",
            ],
            id="numpydoc",
        ),
        pytest.param(
            """
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
            """,
            [
                "Computes the loss of a batch.",
                "The true classes.",
                "The scores before the softmax.",
                "Other arguments of the loss.",
                "A scalar, which is the mean loss.",
                "If the shapes are not equal.",
            ],
            id="google",
        ),
        pytest.param(
            """
            Write the rows to a file.

            :param rows: the rows to be written
            :type rows: list of the rows
            :returns: the number of rows
            """,
            [
                "Write the rows to a file.",
                "the rows to be written",
                "the number of rows",
            ],
            id="field_list",
        ),
        pytest.param(
            """
            Use ``fit`` and `predict` of :class:`~a.b.Model` as in
            :ref:`the guide <guide>` or [this page](https://a.b/c).

            It is *never* a **bad** idea [1]_, as is shown in [2]_.
            It is |really| good [Knu97]_.
            """,
            [
                "Use fit and predict of Model as in the guide or this page.",
                "It is really good.",
            ],
            id="inline_markup",
        ),
        pytest.param(
            """
            Draw the lines of a figure.

            .. versionadded:: 1.2
               This is said of the version.

            .. note:: The figure is not shown.

            .. code-block:: python

               this is in the code
            """,
            ["Draw the lines of a figure.", "The figure is not shown."],
            id="directives",
        ),
        pytest.param(
            """
            The text is read in one go. See https://a.b/c for the details.
            Copyright is not prose but this one is in the same paragraph.

            It is sent to the server.
            """,
            ["It is sent to the server."],
            id="licence",
        ),
        pytest.param(
            "The text is read in one go. See https://a.b/c for the details.",
            ["The text is read in one go."],
            id="url",
        ),
        pytest.param(
            """
            These are the modes of it:

            * fast: the one that skips the checks
            * `safe`: the one that makes all the checks
            """,
            [
                "These are the modes of it:",
                "the one that skips the checks",
                "the one that makes all the checks",
            ],
            id="bullets",
        ),
        pytest.param(
            """
            The child process is started to
            return the value of it.

            x = 1
            return x
            """,
            ["The child process is started to return the value of it."],
            id="prose_like_code",
        ),
        pytest.param(
            "It\u2019s the \u201cfirst\u201d one\u00a0\u2013 and it\x0b stays.",
            ['It\'s the "first" one - and it stays.'],
            id="typography",
        ),
    ],
)
def test_clean_docstring(docstring, expected):
    assert clean(docstring) == expected


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


def test_split_sentences_keeps_abbreviations_together():
    text = (
        "Use a list, e.g. The first one. See Fig. 3 of it! 2 is even. so it is"
    )
    assert docstring_prose.split_sentences(text) == [
        "Use a list, e.g. The first one.",
        "See Fig. 3 of it!",
        "2 is even. so it is",
    ]


def test_extract_docstrings_in_source_order_with_newdocs():
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
    tree = ast.parse(source)
    found = list(docstring_files.extract_docstrings(tree))
    assert found == ["Module.", "Class.", "Method.", "Branch."] + [
        "numpy",
        "add",
        "Ufunc.",
    ]


# --- Masking ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Returns a tf.data.Dataset of it.", "Returns a Dataset of it."),
        ("A NumPy array or pandas.DataFrame.", "A library array or DataFrame."),
        ("Calls np.add, then scipy.", "Calls add, then library."),
        ("TensorFlow's TFRecord and TPU", "library's library and TPU"),
        ("The scikit-learn API of sklearn", "The library API of library"),
        ("Use to_numpy and tf_keras here", "Use library and library here"),
        ("Python 3 and CPython differ", "library 3 and library differ"),
        ("In plt.plot the pd and mpl", "In plot the library and library"),
        ("The tf-idf of a TF * IDF matrix", "The tfidf of a tfidf matrix"),
        ("SciPy / NumPy only", "library only"),
        ('Given "output" or input', "Given output or input"),
        ("jax2tf and tf2xla.convert", "library and library.convert"),
    ],
)
def test_mask_library_names(text, expected):
    assert labelled_texts.mask_library_names(text) == expected


def test_labelled_texts_are_whole_sentences_of_20_to_60_words():
    def sentence(num_words):
        return " ".join(["word"] * num_words)

    document = docstring_documents.Document(
        "m", "p", "train", [sentence(n) for n in (15, 40, 30, 70, 10)]
    )
    texts = list(labelled_texts.labelled_texts(document))
    assert texts == [
        sentence(15) + ". " + sentence(40) + ".",
        sentence(30) + ".",
    ]


def test_quotas_give_what_one_label_lacks_to_the_others():
    assert labelled_texts.quotas({"a": 2, "b": 9, "c": 9}, 9) == {
        "a": 2,
        "b": 3,
        "c": 4,
    }
    # At most 1.5 times an even share each.
    assert labelled_texts.quotas({"a": 0, "b": 99}, 20) == {"a": 0, "b": 15}


# --- Splits and repeats -------------------------------------------------------


def test_split_of_module_is_stable():
    names = [f"pkg/m{n}.py" for n in range(2000)]
    splits = [
        docstring_documents.split_of_module(name, 0, 0.3) for name in names
    ]
    counts = collections.Counter(splits)
    assert splits[:6] == [
        docstring_documents.split_of_module(name, 0, 0.3) for name in names[:6]
    ]
    assert 1300 < counts["train"] < 1500
    assert 150 < counts["dev"] < 250
    assert 350 < counts["test"] < 450
    assert splits != [
        docstring_documents.split_of_module(name, 1, 0.3) for name in names
    ]
    # blake2b of "0\0split\0pkg/m0.py"; must hold on every machine.
    drawn = docstring_documents.stable_hash(0, "split", "pkg/m0.py")
    assert drawn == pytest.approx(0.361923, abs=1e-6)


def test_drop_repeats():
    shared = "This is a sentence of both the splits."
    common = "And a short one."
    own = "This one is only in the second of them."
    filler = "The rest of it is long enough to be kept here"

    def document(split, *sentences):
        return docstring_documents.Document(
            f"p/{split}.py", "p", split, list(sentences)
        )

    dropped = collections.Counter()
    kept = docstring_documents.drop_repeats(
        [
            document("test", shared, common, own),
            document("train", shared, common),
            document("train", shared.upper(), common + "  "),
            document("train", "Too short."),
            *(document("train", f"{filler} {n}.", common) for n in "abcd"),
        ],
        dropped,
    )
    assert [d.sentences for d in kept] == [
        [shared, common],
        [filler + " a.", common],
        [filler + " b.", common],
        [filler + " c."],
        [filler + " d."],
        [own],
    ]
    assert dropped == {
        "documents_repeated": 1,
        "documents_too_short": 1,
        "sentences_repeated": 3,
        "sentences_shared_with_earlier_split": 1,
    }


# --- The whole tool -----------------------------------------------------------

_WORDS = ["array", "figure", "model", "index", "label"]
_WORDS += ["value", "batch", "width", "shape", "title"]


def write_tree(
    root: pathlib.Path, packages=("numpy", "pandas")
) -> pathlib.Path:
    """Writes packages of 30 modules, each with two unlike docstrings."""
    for index, package in enumerate(packages):
        for number in range(30 * index, 30 * index + 30):
            first = _WORDS[number % 10]
            second = _WORDS[number // 10]
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
    return build_docstring_corpus.main(
        [
            f"--output-dir={output_dir}",
            f"--root={root}",
            f"--num-processes={processes}",
            "--heldout_fraction=0.4",
            "--labels=numpy,pandas",
            "--num_train_files=3",
            *flags,
        ]
    )


def contents(directory: pathlib.Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def test_build(tmp_path):
    root = write_tree(tmp_path / "site")
    (root / "numpy" / "broken.py").write_text('"""Broken."""\ndef (')
    (root / "numpy" / "tests").mkdir()
    (root / "numpy" / "tests" / "m.py").write_text('"""It must be skipped."""')
    (root / "numpy" / "_vendor").mkdir()
    (root / "numpy" / "_vendor" / "m.py").write_text('"""It is vendored."""')
    info = root / "numpy-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: numpy\nVersion: 1.2\n")
    (info / "top_level.txt").write_text("numpy\n")
    output_dir = tmp_path / "out" / "corpus"
    assert run(root, output_dir) == 0

    files = contents(output_dir)
    assert list(files) == [
        "heldout/00-of-02.txt",
        "heldout/01-of-02.txt",
        "labelled/dev.tsv",
        "labelled/test.tsv",
        "labelled/train.tsv",
        "train/00-of-03.txt",
        "train/01-of-03.txt",
        "train/02-of-03.txt",
    ]
    assert [p.name for p in output_dir.parent.iterdir()] == ["corpus"]
    text = {
        split: b"".join(v for k, v in files.items() if k.startswith(split))
        for split in ("train", "heldout")
    }
    lines = {k: set(v.decode().split("\n")) - {""} for k, v in text.items()}
    assert not lines["train"] & lines["heldout"]
    assert b"\n\n\n" not in text["train"]
    assert b"skipped" not in text["train"] + text["heldout"]
    assert b"vendored" not in text["train"] + text["heldout"]

    manifest = json.loads((output_dir / "manifest.json").read_text())
    assert manifest["versions"] == {"numpy": "1.2", "pandas": ""}
    assert manifest["dropped"]["files_unreadable"] == 1
    assert manifest["packages"]["pandas"]["files"] == 30
    totals = manifest["totals"]
    assert totals["train"]["documents"] + totals["heldout"]["documents"] == 120
    documents = text["train"].count(b"\n\n")
    assert totals["train"]["documents"] == documents

    rows = {}
    for split in ("train", "dev", "test"):
        content = files[f"labelled/{split}.tsv"].decode()
        header, *rows[split] = content.rstrip("\n").split("\n")
        assert header == "text\tlabel"
        assert rows[split]
        for row in rows[split]:
            masked, label = row.split("\t")
            assert label in ("numpy", "pandas")
            assert not re.search("numpy|pandas", masked, re.IGNORECASE)
            assert 20 <= len(masked.split()) <= 60
    train_text = text["train"].decode()
    for row in rows["dev"] + rows["test"]:
        number = re.search(r"number (\d+)", row).group(1)
        label = row.split("\t")[1]
        assert f"number {number} of {label}" not in train_text
    assert not set(rows["dev"]) & set(rows["test"])


def test_same_bytes_whatever_the_number_of_processes(tmp_path):
    root = write_tree(tmp_path / "site")
    run(root, tmp_path / "one")
    run(root, tmp_path / "two", processes=2)
    run(root, tmp_path / "other", "--seed=1")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert contents(tmp_path / "one") != contents(tmp_path / "other")


def test_a_second_run_does_nothing_until_flags_or_versions_change(
    tmp_path, capsys
):
    root = write_tree(tmp_path / "site")
    output_dir = tmp_path / "corpus"
    assert run(root, output_dir) == 0
    before = (output_dir / "manifest.json").stat().st_mtime_ns
    assert run(root, output_dir, processes=2) == 0
    assert (output_dir / "manifest.json").stat().st_mtime_ns == before
    assert "is up to date" in capsys.readouterr().err
    assert run(root, output_dir, "--document=module") == 0
    manifest = json.loads((output_dir / "manifest.json").read_text())
    assert manifest["flags"]["document"] == "module"
    text = b"".join(
        v for k, v in contents(output_dir).items() if k.startswith("train")
    )
    assert text.count(b"\n\n") == manifest["totals"]["train"]["modules"]


def test_max_megabytes_keeps_whole_modules(tmp_path):
    root = write_tree(tmp_path / "site")
    assert run(root, tmp_path / "corpus", "--max_megabytes=0.006") == 0
    manifest = json.loads((tmp_path / "corpus" / "manifest.json").read_text())
    totals = manifest["totals"]
    size = totals["train"]["characters"] + totals["heldout"]["characters"]
    assert 5000 < size <= 6000
    assert manifest["dropped"]["documents_over_max_megabytes"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--packages=numpy,nosuch"], "--packages: not installed under"),
        (["--packages=empty"], "No train prose found in 1 files"),
        (["--labels=numpy,cobol"], "--labels must be among python,"),
        (["--heldout_fraction=1.5"], "between 0 and 1. Received: 1.5"),
        (["--num_processes=0"], "--num_processes must be at least 1"),
        (["--max_megabytes=-1"], "--max_megabytes must be at least 0"),
        (["--root=/no/such/dir"], "--root is not a directory: /no/such/dir"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, capsys, flags, message):
    root = write_tree(tmp_path / "site", packages=("numpy",))
    (root / "empty.py").write_text("x = 1\n")
    assert run(root, tmp_path / "corpus", *flags) == 1
    errors = [
        line
        for line in capsys.readouterr().err.splitlines()
        if not line.startswith("reading")
    ]
    assert len(errors) == 1
    assert message in errors[0]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_refuses_a_directory_that_it_did_not_make(tmp_path, capsys):
    root = write_tree(tmp_path / "site")
    output_dir = tmp_path / "corpus"
    output_dir.mkdir()
    (output_dir / "thesis.txt").write_text("Mine.")
    assert run(root, output_dir) == 1
    assert "did not write: 'thesis.txt'" in capsys.readouterr().err
    (output_dir / "thesis.txt").unlink()
    assert run(root, output_dir) == 0
    (output_dir / "thesis.txt").write_text("Mine.")
    assert run(root, output_dir, "--seed=1") == 1
    assert (output_dir / "thesis.txt").read_text() == "Mine."
    (output_dir / "thesis.txt").unlink()
    # What lies deeper, or was changed, is somebody's as well.
    for name in ("train/thesis.txt", "train/00-of-03.txt"):
        path = output_dir / name
        before = path.read_bytes() if path.exists() else None
        path.write_text("Mine.")
        capsys.readouterr()
        for flags in ([], ["--seed=1"]):
            assert run(root, output_dir, *flags) == 1
            assert f"did not write: '{name}'" in capsys.readouterr().err
            assert path.read_text() == "Mine."
        path.unlink() if before is None else path.write_bytes(before)
    # What is gone is written again, and so is what earlier versions wrote.
    before = contents(output_dir)
    (output_dir / "train" / "00-of-03.txt").unlink()
    assert run(root, output_dir) == 0
    assert contents(output_dir) == before
    manifest = json.loads((output_dir / "manifest.json").read_text())
    del manifest["outputs"]
    (output_dir / "manifest.json").write_text(json.dumps(manifest))
    assert run(root, output_dir, "--seed=1") == 0
    assert contents(output_dir) != before


def test_refuses_an_output_dir_that_cannot_be_written(tmp_path, capsys):
    root = write_tree(tmp_path / "site")
    (tmp_path / "file").write_text("")
    assert run(root, tmp_path / "file") == 1
    assert "--output_dir is not a directory" in capsys.readouterr().err
    assert run(root, tmp_path / "file" / "corpus") == 1
    assert "--output_dir cannot be written" in capsys.readouterr().err
