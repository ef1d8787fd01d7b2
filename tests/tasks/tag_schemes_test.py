import pytest

from electra_tf.tasks import tag_schemes


@pytest.mark.parametrize(
    ("tags", "form", "as_bioes"),
    [
        ("B-X I-X O", "B-PER", "B-X I-X O"),
        ("I-X O", "B-PER", "I-X O"),
        ("B-X L-X U-X I-X o", "B-PER", "B-X E-X S-X I-X O"),
        ("B_X M_X E_X S_X O", "B_PER", "B-X I-X E-X S-X O"),
        ("b-X w-X O", "B-PER", "B-X S-X O"),
        ("X-B X-I -", "PER-B", "B-X I-X O"),
        ("B I O", "B", "B-_ I-_ O"),
        # Kinds may have these signs, too.
        ("B-X-Y B-X_Y O", "B-PER", "B-X-Y B-X_Y O"),
    ],
)
def test_tags_of_spans(tags, form, as_bioes):
    found = tags.split()
    assert tag_schemes.form_of(found) == form
    converted = [tag_schemes.as_bioes(tag, form) for tag in found]
    assert converted == as_bioes.split()


@pytest.mark.parametrize(
    "tags",
    [
        "DET NN VB",
        "O",
        "B-X NN O",
        # Sizes, no scheme has these letters.
        "S-X M-X L-X",
        "L-X M-X O",
        "I O",
        "B I",
    ],
)
def test_tags_of_words(tags):
    assert not tag_schemes.form_of(tags.split())
    assert tag_schemes.as_bioes("B-X", "") == "B-X"


def test_a_stray_tag():
    assert tag_schemes.form_of({"B-X", "I-X", "XX", "O"}) == "B-PER"
    assert not tag_schemes.form_of({"NN", "VB", "B-X", "O"})


@pytest.mark.parametrize(
    ("tags", "scheme", "is_mixed"),
    [
        ("B-X I-X O B-X", "BIO", False),
        ("I-X I-X O B-Y", "BIO", True),
        ("I-X I-X B-X I-X O I-Y", "IOB1", False),
        ("B-X I-X E-X S-X O B-X E-X", "BIOES", False),
        ("B-X -100 I-X O", "BIO", False),
        ("I-X E-X O B-X E-X S-X", "BIOES", True),
        ("B-X I-X O B-X E-X S-X", "BIOES", True),
        ("B-X O B-X E-X S-X", "BIOES", True),
        ("B-X I-X L-X U-X", "BILOU", False),
        ("B-X M-X E-X S-X", "BMES", False),
    ],
)
def test_scheme_of_a_file(tags, scheme, is_mixed):
    assert tag_schemes.scheme_of([tags.split()], "B-PER") == (scheme, is_mixed)


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("BIOES", "S-X B-X I-X E-X O S-Y -"),
        ("BIO", "B-X B-X I-X I-X O B-Y -"),
        ("IOB1", "I-X B-X I-X I-X O I-Y -"),
        ("BILOU", "U-X B-X I-X L-X O U-Y -"),
    ],
)
def test_answers_in_a_scheme(scheme, tags):
    bioes = ["S-X", "B-X", "I-X", "E-X", "O", "S-Y", "-"]
    assert tag_schemes.in_scheme(bioes, scheme) == tags.split()
