"""The lines of Python in a model card run as they are, by transformers."""

import pytest

from tests.checkpoints import cards


@pytest.mark.parametrize("kind", cards.OF_EACH_KIND)
def test_a_snippet_runs(tmp_path, kind, capsys):
    checkpoint = cards.OF_EACH_KIND[kind]()
    for part, text in cards.write(checkpoint, tmp_path / "m").items():
        exec(compile(cards.snippet(text), part, "exec"), {})
        assert capsys.readouterr().out
