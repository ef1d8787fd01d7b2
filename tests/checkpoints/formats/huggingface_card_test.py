"""Tests of checkpoints/formats/huggingface_card.py.

That its lines run is in tests/interop/huggingface_card_interop.py.
"""

import huggingface_hub
import pytest

from tests.checkpoints import cards, models


def test_a_fine_tuned_model(tmp_path):
    (text,) = cards.write(models.finetuned(), tmp_path / "my model").values()
    data = huggingface_hub.ModelCard(text).data
    assert data.library_name == "transformers"
    assert data.pipeline_tag == "text-classification"
    assert "\n# my model\n" in text
    assert (
        "* 2 layers, 8 wide, a vocabulary of 20 tokens, 12 positions\n" in text
    )
    assert "* text is lower-cased\n" in text


def test_a_generator_and_its_discriminator(tmp_path):
    written = cards.write(models.pretrained(), tmp_path / "both")
    assert set(written) == {"generator", "discriminator"}
    for part, text in written.items():
        assert f"\n# both-{part}\n" in text
        assert f"{tmp_path}/both/{part}" in cards.snippet(text)
    tag = huggingface_hub.ModelCard(written["generator"]).data.pipeline_tag
    assert tag == "fill-mask"


@pytest.mark.parametrize("kind", cards.OF_EACH_KIND)
def test_a_snippet_is_python(tmp_path, kind):
    checkpoint = cards.OF_EACH_KIND[kind]()
    for part, text in cards.write(checkpoint, tmp_path / "m").items():
        compile(cards.snippet(text), part, "exec")


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("tagging", "* words are read in segment 1 (token_type_ids)\n"),
        ("regression", "* an output of y says 4 y + 1\n"),
    ],
)
def test_a_card_says_what_the_head_has_learned(tmp_path, kind, line):
    checkpoint = cards.OF_EACH_KIND[kind]()
    (text,) = cards.write(checkpoint, tmp_path).values()
    assert line in text


def test_without_a_vocabulary_there_is_nothing_to_run(tmp_path):
    checkpoint = models.finetuned(vocabulary=None)
    (text,) = cards.write(checkpoint, tmp_path / "m").values()
    assert "```" not in text
