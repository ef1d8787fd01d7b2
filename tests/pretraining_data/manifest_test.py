import pytest

from electra_tf.pretraining_data import manifest
from tests import helpers


def data_set(folder, name, share="training", inputs=None, **flags):
    """A folder with a manifest alone, and the one file that it names."""
    (folder / name).mkdir()
    texts = {"a.txt": "11", "b.txt": "22"} if inputs is None else inputs
    entries = [
        {"name": text, "sha256": digest, "examples": 7}
        for text, digest in texts.items()
    ]
    helpers.write_manifest(
        folder / name, {"x.tfrecord": 1}, entries, share, **flags
    )
    return [str(folder / name / "x.tfrecord")]


@pytest.mark.parametrize(
    ("train", "heldout", "message"),
    [
        # What one build has held out, and what it has left.
        ({"heldout_fraction": 0.1}, {"heldout_fraction": 0.1}, None),
        # More was left out of training than is scored.
        ({"heldout_fraction": 0.2}, {"heldout_fraction": 0.1}, None),
        ({}, {"heldout_fraction": 0.1}, "such as of a.txt"),
        ({"heldout_fraction": 0.05}, {"heldout_fraction": 0.1}, "a.txt"),
        # Other documents: their numbers are others.
        (
            {"heldout_fraction": 0.1, "blanks_separate_docs": False},
            {"heldout_fraction": 0.1},
            "a.txt",
        ),
        ({}, {"heldout_fraction": 0.1, "inputs": {"a.txt": "33"}}, None),
        ({}, {"heldout_fraction": 0.1, "inputs": {"c.txt": "22"}}, "c.txt"),
        # A whole data set as the held-out one.
        ({}, {"share": "training"}, "a.txt"),
        # The names are changed.
        (
            {"share": "heldout", "heldout_fraction": 0.1},
            {"share": "training"},
            "a.txt",
        ),
    ],
)
def test_says_that_held_out_documents_are_trained_on(
    tmp_path, train, heldout, message
):
    found = manifest.remarks(
        data_set(tmp_path, "train", **train),
        data_set(tmp_path, "heldout", **{"share": "heldout"} | heldout),
    )
    assert len(found) == (message is not None)
    if message:
        assert message in found[0]
        assert f"examples held out in {tmp_path / 'heldout'} are of" in found[0]


def test_texts_that_were_treated_in_different_ways(tmp_path):
    lower = data_set(tmp_path, "lower", inputs={"a": "1"})
    again = data_set(tmp_path, "again", inputs={"b": "2"})
    cased = data_set(tmp_path, "cased", inputs={"c": "3"}, do_lower_case=False)
    unsaid = [str(tmp_path / "unsaid" / "x.tfrecord")]
    assert manifest.different_treatments(lower + again + unsaid) is None
    line = manifest.different_treatments(lower + unsaid + cased)
    assert "do_lower_case False, strip_accents True there" in line
    assert manifest.treatment_of_text(lower + again) == {
        "do_lower_case": True,
        "strip_accents": True,
    }
    for files in (lower + cased, lower + unsaid, []):
        assert manifest.treatment_of_text(files) == {}
    assert manifest.remarks(lower, again) == []
    (line,) = manifest.remarks(lower, cased)
    assert "was treated in another way than that in" in line
    # It is said without the held-out ones.
    assert manifest.remarks(lower + cased, again) == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"manifest_version": 2, "shards": []}'],
)
def test_manifests_that_say_nothing(tmp_path, text):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "manifest.json").write_text(text)
    odd = [str(tmp_path / "odd" / "x.tfrecord")]
    plain = data_set(tmp_path, "plain")
    assert manifest.remarks(plain, odd) == manifest.remarks(odd, plain) == []
    assert manifest.treatment_of_text(odd) == {}
