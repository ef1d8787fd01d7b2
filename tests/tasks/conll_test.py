import pytest

from electra_tf.tasks import conll

FILE = """-DOCSTART- -X- O

# text = a bx .
a NN B-NP
bx NN I-NP
# NN O

c VB B-VP
d NN B-NP"""


def test_sentences(write):
    found = conll.read(write("train.txt", FILE))
    assert found == [
        conll.Sentence(("a", "bx", "#"), ("B-NP", "I-NP", "O"), row=4),
        conll.Sentence(("c", "d"), ("B-VP", "B-NP"), row=8),
    ]


def test_the_column_of_tags(write):
    found = conll.read(write("train.txt", FILE), tag_column=1)
    assert [s.tags for s in found] == [
        ("NN", "NN", "NN"),
        ("VB", "NN"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a B-X\nb\n\n", "a word and a tag.*'b' in .*, row 2"),
        ("a\nb\n\n", "a word and a tag.*'a' in .*, row 1"),
        ("# id 7\n", "sentences with a blank row after each"),
    ],
)
def test_bad_files(write, content, message):
    for as_original in (False, True):
        with pytest.raises(ValueError, match=message):
            conll.read(write("t.txt", content), as_original=as_original)
