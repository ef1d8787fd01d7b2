"""Tests of checkpoints/formats/huggingface_card.py.

That its lines run is in tests/interop/huggingface_card_interop.py.
"""

import huggingface_hub
import pytest

from tests.checkpoints import cards, models


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
