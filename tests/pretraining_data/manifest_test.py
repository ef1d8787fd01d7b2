import pytest

from electra_tf.pretraining_data import manifest
from tests import helpers, notices


def data_set(folder, name, **flags):
    """A folder with a manifest alone, and the one file that it names."""
    (folder / name).mkdir()
    helpers.write_manifest(folder / name, {"x.tfrecord": 1}, **flags)
    return [str(folder / name / "x.tfrecord")]


def test_texts_that_were_treated_in_different_ways(tmp_path):
    lower = data_set(tmp_path, "lower")
    again = data_set(tmp_path, "again")
    cased = data_set(tmp_path, "cased", do_lower_case=False)
    unsaid = [str(tmp_path / "unsaid" / "x.tfrecord")]
    with notices.heard() as lines:
        assert manifest.treatment_of_text(lower + again) == {
            "do_lower_case": True,
            "strip_accents": True,
        }
        for files in (lower + unsaid, []):
            assert manifest.treatment_of_text(files) == {}
        assert lines == []
        assert manifest.treatment_of_text(lower + cased) == {}
    (line,) = lines
    assert f"the text in {tmp_path / 'lower'} was treated in another" in line


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"manifest_version": 2, "shards": []}'],
)
def test_manifests_that_say_nothing(tmp_path, text):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "manifest.json").write_text(text)
    odd = str(tmp_path / "odd" / "x.tfrecord")
    assert manifest.differences({odd: 1}) == []
    assert manifest.treatment_of_text([odd]) == {}
    with pytest.raises(ValueError, match="a whole manifest"):
        manifest.read(str(tmp_path / "odd"))
