"""Tests of run_ner.py: its data, its plan, parts of weights, and tables."""

import json

import experiment_runs
import ner_figures
import ner_parts
import ner_plot
import ner_runs
import numpy as np
import pytest
import run_ner
from ner_runs import HALF, PRETRAINED, RESCALED, SCRATCH, Setting

FILE = """-DOCSTART- -X- -X- O

EU NNP B-ORG
rejects VBZ O

German JJ B-MISC

It PRP O
"""


def options(folder, **changes):
    values = {
        "output_dir": str(folder / "out"),
        "data_dir": str(folder / "ner"),
        "num_train_steps": 400,
        "seeds": (1, 2),
        "models": ("uncased", "cased"),
    }
    return ner_runs.Options(**(values | changes))


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(ner_runs, "NUM_CHOICE_SENTENCES", 2)
    monkeypatch.setattr(ner_runs, "NUM_CASE_SENTENCES", 3)


def write_files(folder):
    (folder / "ner").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "ner" / f"{split}.txt").write_text(FILE)


# --- Data ---------------------------------------------------------------------


def test_sentences_are_those_of_the_file():
    assert ner_runs.sentences(FILE) == [
        "EU NNP B-ORG\nrejects VBZ O\n\n",
        "German JJ B-MISC\n\n",
        "It PRP O\n\n",
    ]


def test_fewer_sentences_are_a_part_of_more():
    sentences = [str(number) for number in range(100)]
    few, more = (ner_runs.some_of(sentences, n) for n in (10, 50))
    assert set(few) < set(more) and len(more) == 50
    assert more == sorted(more, key=int)
    assert ner_runs.some_of(sentences, 100) == sentences
    with pytest.raises(ValueError, match="at least 101 .* Received: 100"):
        ner_runs.some_of(sentences, 101)


def test_settings_are_chosen_without_a_test_part(tmp_path, few):
    write_files(tmp_path)
    ner_runs.write_data(options(tmp_path, num_sentences=(1,)))
    data = tmp_path / "out" / "data"
    files = {
        folder.name: sorted(path.name for path in (folder / "ner").iterdir())
        for folder in data.iterdir()
    }
    assert files == {
        "2": ["dev.txt", "train.txt"],
        "1_with_test": ["dev.txt", "test.txt", "train.txt"],
        "3_with_test": ["dev.txt", "test.txt", "train.txt"],
    }
    train = (data / "3_with_test" / "ner" / "train.txt").read_text()
    assert train == "".join(ner_runs.sentences(FILE))


def test_missing_data_are_one_line(tmp_path, capsys):
    flags = [f"--data_dir={tmp_path}", f"--output_dir={tmp_path}"]
    assert run_ner.main(flags) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run_ner: error: Expected the files of CoNLL-2003")


# --- The plan -----------------------------------------------------------------


@pytest.fixture
def written(monkeypatch):
    """The parts of weights that were to be written."""
    found = []
    monkeypatch.setattr(ner_parts, "write", lambda *args: found.append(args[1]))
    return found


def test_all_starts_try_settings_without_the_test_part(tmp_path, written):
    found = ner_runs.choice_runs(options(tmp_path))
    names = ["from_scratch", "pretrained", "rescaled", "embeddings", "layers"]
    names.append("faster")
    assert [run.title for run in found] == [
        f"uncased choices/{name}" for name in names
    ]
    assert written == names[2:5]
    folder = tmp_path / "out" / "uncased"
    for run in found:
        assert run.needs == (f"{folder}/pretraining",)
        assert run.config.data.data_dir == f"{tmp_path}/out/data/3000"
        assert run.config.num_trials == 1
    scratch, ours, *_, layers, faster = (run.config for run in found)
    assert faster.optimizer.layerwise_lr_decay == 1.2
    assert faster.init_checkpoint == ours.init_checkpoint
    assert scratch.from_scratch and not ours.from_scratch
    assert scratch.learning_rates == ours.learning_rates
    assert ours.num_train_epochs_options == ner_runs.NUM_TRAIN_EPOCHS
    assert layers.learning_rates == ner_runs.PART_LEARNING_RATES
    assert layers.num_train_epochs_options == (3.0,)
    assert layers.init_checkpoint == f"{folder}/parts/layers"
    assert not layers.from_scratch


def test_pretraining_differs_in_its_vocabulary_alone(tmp_path):
    uncased, cased = (
        run.config for run in ner_runs.pretraining_runs(options(tmp_path))
    )
    assert uncased.model == cased.model
    assert uncased.optimizer == cased.optimizer
    assert uncased.run.num_train_steps == cased.run.num_train_steps == 400
    # Compared there.
    assert (uncased.run.stop_at_step, cased.run.stop_at_step) == (0, 200)
    assert cased.data.vocab_file == "build/results/english_cased/vocab.txt"


def test_what_was_best_on_dev_is_compared(tmp_path, monkeypatch):
    best = {SCRATCH: 2e-3, PRETRAINED: 1e-3, RESCALED: 5e-4}
    monkeypatch.setattr(
        ner_runs,
        "settings",
        lambda start, _: [
            Setting(2e-4, 3.0, 49.0),
            Setting(best[start], 3.0, 50.0),
            Setting(4e-3, 10.0, 51.0),
        ],
    )
    found = ner_runs.chosen_runs(options(tmp_path, num_sentences=(1000, 3000)))
    runs = {run.title: run.config for run in found}
    assert list(runs) == [
        *(
            f"uncased {number}/{start}"
            for number in (1000, 3000)
            for start in (SCRATCH, PRETRAINED, RESCALED)
        ),
        "cased 3000/from_scratch",
        "uncased 3000/half",
        "cased 3000/half",
    ]
    rates = [run.optimizer.learning_rate for run in runs.values()]
    assert rates == [*(2e-3, 1e-3, 5e-4) * 2, 2e-3, 1e-3, 1e-3]
    for config in runs.values():
        assert config.data.num_train_epochs == 3.0
        assert config.num_trials == 2 and config.run.seed == 1
    config = runs["uncased 1000/from_scratch"]
    assert config.data.data_dir == f"{tmp_path}/out/data/1000_with_test"
    half = f"{tmp_path}/out/cased/pretraining/model.ckpt-200"
    assert runs["cased 3000/half"].init_checkpoint == half


def test_without_choices_nothing_is_compared(tmp_path):
    assert ner_runs.chosen_runs(options(tmp_path)) == []


def test_choices_are_read_from_their_results(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment_runs.Run, "is_finished", lambda _: True)
    run = ner_runs.choice_run(SCRATCH, options(tmp_path))
    folder = tmp_path / "out" / "uncased" / "choices" / "from_scratch"
    assert run.model_dir == str(folder)
    for number, f1 in enumerate((51.25, 50.0), 1):
        (folder / f"trial_{number}").mkdir(parents=True)
        trial = {"learning_rate": 0.002, "num_train_epochs": 10.0}
        trial["tasks"] = {"ner": {"dev": {"f1": f1}}}
        path = folder / f"trial_{number}" / "results.json"
        path.write_text(json.dumps(trial))
    found = ner_runs.settings(SCRATCH, options(tmp_path))
    assert found == [Setting(0.002, 10.0, f1) for f1 in (51.25, 50.0)]


# --- Parts of weights ---------------------------------------------------------


def test_a_part_keeps_what_it_is_named_after():
    names = [
        "electra/embeddings/word_embeddings",
        "electra/embeddings/LayerNorm/gamma",
        "electra/encoder/layer_0/output/dense/kernel",
        "electra/embeddings_project/kernel",
    ]
    kept = {
        part: [name for name in names if pattern.match(name)]
        for part, pattern in ner_parts.PARTS.items()
    }
    assert kept == {
        "embeddings": [names[0], names[1], names[3]],
        "layers": [names[2]],
    }


def test_the_rest_is_as_before_training():
    assert (ner_parts.initial("a/gamma", (3,), 0.5) == 1.0).all()
    assert (ner_parts.initial("a/beta", (3,), 0.5) == 0.0).all()
    assert (ner_parts.initial("a/bias", (3,), 0.5) == 0.0).all()
    kernel = ner_parts.initial("a/kernel", (100, 100), 0.5)
    assert kernel.dtype == np.float32 and np.abs(kernel).max() <= 1.0
    # Without its tails, the deviation of a normal distribution is 0.88.
    assert kernel.std() == pytest.approx(0.44, abs=0.01)
    again = ner_parts.initial("a/kernel", (100, 100), 0.5)
    np.testing.assert_array_equal(kernel, again)
    assert (kernel != ner_parts.initial("b/kernel", (100, 100), 0.5)).any()


def test_rescaled_words_have_the_deviation_of_the_start():
    rng = np.random.default_rng(0)
    words = rng.normal(0.0, 0.1, (50, 20)).astype(np.float32)
    name = "electra/embeddings/word_embeddings"
    found = ner_parts.changed(name, words, RESCALED, 0.03)
    initial = ner_parts.initial(name, (500, 200), 0.03)
    assert found.std() == pytest.approx(initial.std(), rel=0.01)
    np.testing.assert_allclose(found / found.std(), words / words.std(), 1e-5)
    other = ner_parts.changed("electra/encoder/a", words, RESCALED, 0.03)
    assert other is words


# --- Tables -------------------------------------------------------------------


def score(model, start, number, f1s):
    trials = [
        {"seed": seed, "dev": f1, "test": f1 - 5.0}
        for seed, f1 in enumerate(f1s, 1)
    ]
    stats = ner_figures.experiments_table.statistics_of
    return {
        "model": model,
        "start": start,
        "num_sentences": number,
        "learning_rate": 5e-4,
        "num_train_epochs": 10.0,
        "trials": trials,
        "dev": stats(list(f1s)),
        "test": stats([f1 - 5.0 for f1 in f1s]),
    }


def figures():
    scores = [
        score("cased", SCRATCH, 1000, (40.0, 41.0)),
        score("cased", SCRATCH, 3000, (50.0, 51.0)),
        score("cased", PRETRAINED, 3000, (53.0, 54.0)),
    ]
    return {
        "num_choice_sentences": 3000,
        "pretraining": [
            {
                "model": "cased",
                "steps": 4000,
                "disc_auc": 0.7,
                "masked_lm_accuracy": 0.18,
                "cpu_seconds": 90.0,
            }
        ],
        "choices": [
            {
                "model": "cased",
                "start": SCRATCH,
                "settings": [
                    {"learning_rate": rate, "num_train_epochs": 3.0, "f1": f1}
                    for rate, f1 in ((5e-4, 41.0), (2e-3, 43.21))
                ],
            }
        ],
        "scores": scores,
        "case": [score("cased", HALF, 3000, (49.0, 49.0))],
        "differences": ner_figures.differences(scores),
    }


def cells(table):
    return [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in table.splitlines()
        if not row.startswith("| --")
    ]


def test_tables():
    tables = ner_figures.blocks(figures())
    assert cells(tables["ner-pretraining"])[1] == [
        *("cased", "4,000", "0.700", "0.180", "1.5")
    ]
    assert cells(tables["ner-choices"]) == [
        ["begins with", "3 epochs, 5e-4", "3 epochs, 2e-3"],
        ["nothing", "41.0", "**43.2**"],
    ]
    recipe = ["5e-4", "10"]
    assert cells(tables["ner-scores"])[1:] == [
        [
            *("1,000", "nothing", *recipe),
            *("40.5 +- 0.7", "", "35.5 +- 0.7", "", "2"),
        ],
        [
            *("3,000", "nothing", *recipe),
            *("50.5 +- 0.7", "", "45.5 +- 0.7", "", "2"),
        ],
        [
            *("3,000", "all weights", *recipe),
            *("53.5 +- 0.7", "**+3.0 [+3.0, +3.0]**"),
            *("48.5 +- 0.7", "**+3.0 [+3.0, +3.0]**", "2"),
        ],
    ]
    assert cells(tables["ner-case"])[1:] == [
        ["cased", "nothing", "5e-4", "50.5 +- 0.7", "45.5 +- 0.7", "2"],
        ["cased", "half of the steps", "5e-4", "49.0 +- 0.0", "44.0 +- 0.0"]
        + ["2"],
    ]


def test_the_plot_is_written(tmp_path):
    ner_plot.draw(figures(), str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_without_runs_the_figures_are_empty(tmp_path, capsys):
    assert run_ner.main([f"--output_dir={tmp_path}", "--table_only"]) == 0
    found = json.loads((tmp_path / "ner.json").read_text())
    assert found["scores"] == found["choices"] == found["case"] == []


def test_a_model_that_is_unknown(capsys):
    with pytest.raises(SystemExit):
        run_ner.main(["--models=german"])
    assert "expected some of uncased, cased" in capsys.readouterr().err
