"""Tests of baselines.py: the words decide, and dev chooses."""

import baselines

from tests import helpers

TRAIN = (
    ["sort the rows", "join the rows", "draw a line", "draw an axis"] * 3,
    ["pandas", "pandas", "matplotlib", "matplotlib"] * 3,
)
DEV = (["sort rows", "draw it"], ["pandas", "matplotlib"])


def test_words_decide():
    chosen, model = baselines.fit_tfidf(TRAIN, DEV)
    # Of strengths that are as good the one that regularises most.
    assert chosen == {
        "dev_accuracy": 100.0,
        "max_words": 1,
        "min_texts": 1,
        "class_weight": None,
        "strength": min(baselines.STRENGTHS),
    }
    assert list(model.predict(["draw the axis"])) == ["matplotlib"]


def test_results_are_laid_out_like_those_of_fine_tuning(tmp_path):
    rows = {
        "train": [("good film", "pos"), ("bad film", "neg"), ("good", "pos")],
        "dev": [("good", "pos"), ("bad", "neg")],
        "test": [("good", "pos")] * 3 + [("bad", "neg")],
    }
    flags = [
        f"--{split}_file={helpers.write_tsv(tmp_path / f'{split}.tsv', some)}"
        for split, some in rows.items()
    ]
    flags.append(f"--output_dir={tmp_path / 'out'}")
    assert baselines.main(flags) == 0
    found = helpers.read_json(tmp_path / "out" / "results.json")
    (trial,) = found["trials"]
    assert trial == {"dev": {"accuracy": 100.0}, "test": {"accuracy": 100.0}}
    assert "strength" in found["chosen"]
