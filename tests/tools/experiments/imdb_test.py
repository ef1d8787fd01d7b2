"""Tests of the tools behind docs/imdb.md and docs/imdb_tried.md."""

import dataclasses
import json
import lzma
import pathlib
import re
import shlex

import build_imdb_data
import imdb_plot
import imdb_runs
import imdb_table
import imdb_tried_table
import pytest
import run_imdb
import tf_idf

from electra_tf import model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.training import optimization
from tests import helpers

# --- Data ---------------------------------------------------------------------


def write_xz(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", encoding="utf-8") as f:
        f.write(text)


def rows(number, text="review"):
    return [f"{text} {n}\t{('neg', 'pos')[n % 2]}" for n in range(number)]


def as_file(lines):
    lines = ["text\tlabel\trating", *(f"{line}\t7" for line in lines)]
    return "".join(f"{line}\n" for line in lines)


def test_the_smaller_sets_are_the_beginning_of_the_larger_ones():
    found = build_imdb_data.splits(
        rows(10), rows(6, "test"), sizes=(2, 7), num_dev=3, num_test=4
    )
    assert found == {
        "train_2": rows(2),
        "train_7": rows(7),
        "dev": rows(10)[7:],
        "test": rows(4, "test"),
    }


@pytest.mark.parametrize(
    ("num_train", "num_test", "message"),
    [
        (9, 4, r"7 rows to train on and 3 of dev\. Received: 9"),
        (10, 3, r"4 rows of test.*Received: 3"),
    ],
)
def test_too_few_rows_are_an_error(num_train, num_test, message):
    with pytest.raises(ValueError, match=message):
        build_imdb_data.splits(rows(num_train), rows(num_test), (2, 7), 3, 4)


def test_what_is_built(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "imdb"
    write_xz(folder / "train.tsv.xz", as_file(rows(5)))
    write_xz(folder / "test.tsv.xz", as_file(rows(2, "SECRET")))
    reviews = [f"First {n}.\nSecond." for n in range(9)]
    write_xz(folder / "unsup.txt.xz", "\n\n".join(reviews) + "\n")
    monkeypatch.setattr(
        build_imdb_data,
        "splits",
        lambda train, test: {"train_2": train[:2], "test": test},
    )
    build_imdb_data.build(tmp_path / "data", tmp_path / "out")
    labelled = tmp_path / "out" / "labelled"
    assert (labelled / "train_2.tsv").read_text() == (
        "text\tlabel\nreview 0\tneg\nreview 1\tpos\n"
    )
    parts = sorted((tmp_path / "out" / "corpus").iterdir())
    assert len(parts) == 8
    # A blank line between two reviews, and every review whole.
    assert parts[0].read_text() == f"{reviews[0]}\n\n{reviews[8]}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text\tlabel\na\tpos\n", r"header.*train\.tsv\.xz"),
        (as_file(["a\tpos", "b\tgood"]), r"neg or pos.*row 3.*good"),
    ],
)
def test_other_files_are_an_error(tmp_path, text, message):
    path = tmp_path / "train.tsv.xz"
    write_xz(path, text)
    with pytest.raises(ValueError, match=message):
        build_imdb_data.read_labelled(path)


def test_without_reviews_there_is_no_corpus(tmp_path):
    write_xz(tmp_path / "unsup.txt.xz", "\n\n")
    with pytest.raises(ValueError, match=r"Expected reviews.*unsup\.txt\.xz"):
        build_imdb_data.write_corpus(tmp_path / "unsup.txt.xz", tmp_path / "a")


def test_a_damaged_file_and_a_missing_one_are_one_line(tmp_path, capsys):
    flags = [f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'out'}"]
    assert build_imdb_data.main(flags) == 1
    assert "train.tsv.xz" in capsys.readouterr().err
    path = tmp_path / "imdb" / "train.tsv.xz"
    path.parent.mkdir()
    path.write_bytes(b"no archive")
    assert build_imdb_data.main(flags) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "Cannot read" in said


# --- Runs and figures ---------------------------------------------------------


def test_runs_are_commands_of_their_own_settings():
    found = imdb_runs.finetuning("from_scratch", 100, "b", num_seeds=3)
    assert found.config.from_scratch
    assert found.config.run.model_dir == "b/runs/from_scratch_100"
    assert found.config.init_checkpoint == "b/pretrain"
    assert found.needs == ("b/pretrain",)
    assert found.config.num_trials == 3
    epochs = imdb_runs.NUM_EPOCHS[100]
    assert found.config.data.num_train_epochs == epochs
    assert found.config.data.train_file == "b/labelled/train_100.tsv"
    other = imdb_runs.finetuning("pretrained", 23000, "b", num_seeds=3)
    assert not other.config.from_scratch
    assert other.weight > found.weight


def test_sizes_are_those_that_are_built():
    assert tuple(imdb_runs.NUM_EPOCHS) == build_imdb_data.SIZES


@pytest.mark.parametrize("size", imdb_runs.NUM_EPOCHS)
def test_pre_trained_weights_take_no_greater_steps_and_more(size):
    scratch = imdb_runs.finetuning("from_scratch", size, "b").config
    ours = imdb_runs.finetuning("pretrained", size, "b").config
    num_layers = imdb_runs.pretraining().config.model.encoder.num_hidden_layers
    top, decay = num_layers - 1, ours.optimizer.layerwise_lr_decay
    scale = optimization.layerwise_scale(
        f"electra/encoder/layer_{top}/output/dense/kernel", num_layers, decay
    )
    rate = ours.optimizer.learning_rate
    assert rate * scale <= scratch.optimizer.learning_rate
    assert ours.optimizer == dataclasses.replace(
        scratch.optimizer, learning_rate=rate, layerwise_lr_decay=decay
    )
    for config in (scratch, ours):
        has_more = config.data.num_train_epochs > imdb_runs.NUM_EPOCHS[size]
        learns_all = config.optimizer.layerwise_lr_decay != 1e-6
        assert config.dropout == 0.1 or not (has_more and learns_all)
    assert scratch.optimizer.layerwise_lr_decay == 0.0
    assert ours.pooling == scratch.pooling
    assert ours.data.num_train_epochs >= scratch.data.num_train_epochs


def write_config(run):
    """What makes a folder that of a run which has learned something."""
    folder = pathlib.Path(run.model_dir)
    (folder / "trial_1").mkdir(parents=True)
    record = json.dumps(model_directory.as_dict(run.config))
    (folder / model_directory.CONFIG_FILE).write_text(record)
    (folder / "trial_1" / "checkpoint").touch()


def write_scores(build_dir, start, size, scores, again=1):
    run = imdb_runs.finetuning(start, size, str(build_dir), again=again)
    write_config(run)
    for number, score in enumerate(scores, start=1):
        folder = model_directory.trial_dir(run.model_dir, number)
        path = pathlib.Path(folder, model_directory.RESULTS_FILE)
        path.parent.mkdir(exist_ok=True)
        scored = {split: {"accuracy": score} for split in ("dev", "test")}
        record = {"num_train_steps": 7, "tasks": {"imdb": scored}}
        path.write_text(json.dumps(record))
    run.add_cost(cpu_seconds=60.0)


@pytest.fixture
def figures(tmp_path):
    """Two numbers of labels; of the second, one model and no more."""
    write_scores(tmp_path, "pretrained", 100, [80.0, 82.0])
    write_scores(tmp_path, "from_scratch", 100, [60.0, 60.0])
    write_scores(tmp_path, "pretrained", 400, [85.0])
    for features, score in (
        ("tfidf", 75.0),
        ("frozen", 70.0),
        ("latent", 72.5),
    ):
        path = imdb_runs.linear_path(str(tmp_path), features, 100)
        baseline = tf_idf.Baseline(10.0, True, score, score, 2, 2)
        found = baseline._asdict() | {"cpu_seconds": 6.0}
        path.write_text(json.dumps(found))
    return imdb_runs.collect(str(tmp_path))


def test_figures_are_those_of_models_that_are_there(figures):
    first, second, *others = figures["rows"]
    assert first["pretrained"]["test"]["mean"] == 81.0
    assert first["pretrained_minus_tfidf"] == 6.0
    assert first["from_scratch_minus_tfidf"] == -15.0
    assert first["latent_minus_tfidf"] == -2.5
    assert first["standard_error"] == pytest.approx(0.612, abs=1e-3)
    assert second["pretrained"]["test"]["stdev"] is None
    assert second.keys() == {"labels", "pretrained"}
    assert [row.keys() for row in others] == [{"labels"}] * 3


def test_tables_of_what_is_there(figures):
    found = imdb_table.blocks(figures)
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in found["accuracy"].splitlines()
    ]
    assert lines[2:] == [
        [
            "100",
            "81.0 +- 1.4",
            "60.0 +- 0.0",
            "70.0",
            "72.5",
            "75.0",
            "+6.0",
            "2, 2",
        ],
        ["400", "85.0", "", "", "", "", "", "1, 0"],
    ]
    # Minutes of one model.
    assert "| 0.50 " in found["settings"]
    assert "10, balanced, pairs, in 2 texts" in found["settings"]
    assert "disc_auc" in found["pretraining"]


def test_pretrainings_stand_side_by_side(figures):
    few, *_ = figures["rows"]
    of_ours = figures["pretraining"] | {
        "generator": "network",
        "embeddings_from_data": True,
        "embeddings_lr_scale": 0.1,
    }
    other = {
        "pretraining": of_ours
        | {"num_train_steps": 5, "generator": "unigram", "cpu_minutes": 2.4}
        | {"disc_weight": 2.5, "embeddings_from_data": False}
        | {"embeddings_lr_scale": 1.0},
        "rows": [{"labels": 100, "frozen": few["frozen"]}],
    }
    pooled = {
        "pretraining": other["pretraining"],
        "rows": [{"labels": 100, "pretrained": few["from_scratch"]}],
        "pooling": "mean",
        "run": 2,
    }
    both = figures | {"pretraining": of_ours, "others": [other, pooled]}
    table = imdb_tried_table.blocks(both)["pretrainings"]
    head, _, *lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
    ]
    assert head[:8] == [
        "start",
        "replacements",
        "disc_weight",
        "embeddings at first, rate",
        "steps",
        "CPU minutes",
        "100",
        "400",
    ]
    steps = f"{figures['pretraining']['num_train_steps']:,}"
    weight = f"{figures['pretraining']['disc_weight']:g}"
    ours = ["by a network", weight, "LSA, 0.1", steps, ""]
    others = ["by frequency", "2.5", "random", "5", "2"]
    assert [line[:8] for line in lines] == [
        ["pre-trained, run 2, mean", *others, "60.0 +- 0.0", ""],
        ["pre-trained, mean", *ours, "81.0 +- 1.4", "85.0"],
        ["frozen", *others, "70.0", ""],
        ["frozen", *ours, "70.0", ""],
    ]


def test_the_plot_is_written(figures, tmp_path):
    path = tmp_path / "plot.png"
    imdb_plot.draw(figures, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


# --- What was tried on dev ----------------------------------------------------


def page_command():
    """The command of docs/imdb_tried.md that tries something, as its words."""
    text = (helpers.ROOT / "docs" / "imdb_tried.md").read_text()
    (command,) = re.findall(
        r"^    (python -m electra_tf\.run_finetuning .*?)\n\n",
        text,
        re.M | re.S,
    )
    return shlex.split(command.replace("\\\n", " "))


def test_a_choice_is_the_command_of_the_page(tmp_path):
    flags = [word.split("=", 1) for word in page_command()[3:]]
    params = [value for name, value in flags if name == "--gin_param"]
    folder = tmp_path / dict(flags)["--model_dir"].removeprefix("build/imdb/")
    config = gin_files.load(
        finetuning_configs.FinetuningConfig,
        [value for name, value in flags if name == "--gin_file"],
        params,
    )
    (folder / "trial_1").mkdir(parents=True)
    record = json.dumps(model_directory.as_dict(config))
    (folder / "config.json").write_text(record)
    trial = {
        "learning_rate": config.optimizer.learning_rate,
        "num_train_epochs": config.data.num_train_epochs,
        "tasks": {"imdb": {"dev": {"accuracy": 61.05}}},
    }
    (folder / "trial_1" / "results.json").write_text(json.dumps(trial))
    (found,) = imdb_runs.collect(str(tmp_path))["choices"]
    assert found.pop("dev") == 61.05
    kept = helpers.read_json(helpers.ROOT / "docs" / "figures" / "imdb.json")
    # What is said of its pre-training, which is not there, apart.
    assert any(
        found.items() <= choice.items()
        and "step" not in choice
        and choice["embeddings_lr_scale"] == 0.1
        for choice in kept["choices"]
        if "embeddings_lr_scale" in choice
    )


def test_a_choice_says_of_which_pretraining_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pretraining = imdb_runs.pretraining(
        ("OptimizerConfig.embeddings_lr_scale=0.25",)
    )
    write_config(pretraining)
    tuned = imdb_runs.finetuning("pretrained", 100, "build/imdb", 1).config
    folder = tmp_path / "choices" / "one"
    (folder / "trial_1").mkdir(parents=True)
    record = json.dumps(model_directory.as_dict(tuned))
    (folder / "config.json").write_text(record)
    trial = {"learning_rate": 1.0, "num_train_epochs": 2.0}
    trial["tasks"] = {"imdb": {"dev": {"accuracy": 61.05}}}
    (folder / "trial_1" / "results.json").write_text(json.dumps(trial))
    (found,) = imdb_runs.choices(str(tmp_path))
    assert found["generator"] == "shared"
    assert found["embeddings_lr_scale"] == 0.25
    assert "step" not in found


def test_another_pretraining_has_a_line_of_its_own(tmp_path):
    write_config(imdb_runs.pretraining((), 2, str(tmp_path)))
    write_scores(tmp_path, "pretrained", 100, [80.0, 82.0])
    write_scores(tmp_path, "pretrained", 100, [70.0], again=2)
    path = imdb_runs.linear_path(str(tmp_path), "frozen", 100, again=2)
    path.write_text(json.dumps(dict.fromkeys(imdb_runs._KEPT, 60.0)))
    figures = imdb_runs.collect(str(tmp_path))
    (other,) = figures["others"]
    assert other["pretraining"]["seed"] == 2
    assert figures["pretraining"]["seed"] == 1
    assert other["rows"][0]["pretrained"]["test"]["seeds"] == [70.0]
    table = imdb_tried_table.blocks(figures)["pretrainings"]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()[2:]
    ]
    assert [(line[0], line[6]) for line in lines] == [
        ("pre-trained, seed 2, mean", "70.0"),
        ("pre-trained, mean", "81.0 +- 1.4"),
        ("frozen, seed 2", "60.0"),
    ]


def test_runs_that_are_gone_stay_in_the_tables(figures):
    choice, other = {"dev": 1.0}, {"dev": 2.0}
    gone, here = (
        {
            "pretraining": {"command": text},
            "rows": [{"labels": 100, "frozen": {}}],
            "pooling": "cls",
        }
        for text in ("a", "b")
    )
    now = figures | {"choices": [choice, choice], "others": [here]}
    earlier = {"choices": [other, choice], "others": [gone, here | {"run": 2}]}
    found = imdb_runs.with_earlier(now, earlier)
    assert found["choices"] == [other, choice, choice]
    assert found["others"] == [gone, here]
    assert found["rows"] == figures["rows"]
    assert imdb_runs.with_earlier(found, earlier) == found
    # A pre-training that has just begun is none to show.
    begun = gone | {"rows": [{"labels": 100}]}
    found = imdb_runs.with_earlier(now | {"others": [begun]}, earlier)
    assert found["others"] == earlier["others"]


def test_seeds_of_a_choice_stand_together(figures):
    kept = helpers.read_json(helpers.ROOT / "docs" / "figures" / "imdb.json")
    one, other, *_ = (choice | {"dev": 60.0} for choice in kept["choices"])
    tried = [one, other, one | {"dev": 62.0}]
    table = imdb_tried_table.blocks(figures | {"choices": tried})["choices"]
    _, _, *lines = (line.split("|") for line in table.splitlines())
    assert [[cell.strip() for cell in line[-3:-1]] for line in lines] == [
        ["61.0 +- 1.4", "2"],
        ["60.0", "1"],
    ]


def test_a_choice_of_other_data_is_named(tmp_path):
    folder = tmp_path / "choices" / "other"
    (folder / "trial_1").mkdir(parents=True)
    config = {"data": {"train_file": "own.tsv"}, "init_checkpoint": "a"}
    config |= {"from_scratch": False}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "trial_1" / "results.json").write_text("{}")
    with pytest.raises(ValueError, match="Expected a model of film reviews"):
        imdb_runs.choices(str(tmp_path))


# --- The command --------------------------------------------------------------


def test_missing_data_are_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_imdb.main([]) == 1
    said = capsys.readouterr().err
    assert "make imdb DATA=<folder>" in said
    assert said.count("\n") == 1


def test_vectors_of_a_pretraining_that_is_gone_are_refused(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name in ("missing", "changed"):
        monkeypatch.setattr(run_imdb, f"_refuse_{name}_data", lambda _: None)
    monkeypatch.setattr(run_imdb, "_score_tfidf", lambda _: None)
    path = imdb_runs.linear_path("build/imdb", "frozen", 400)
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert run_imdb.main(["--sizes=400"]) == 1
    said = capsys.readouterr().err
    assert f"{path} was made from a run that is gone: move it away" in said


def test_an_unknown_size_is_an_error(capsys):
    with pytest.raises(SystemExit):
        run_imdb.main(["--sizes=100,7"])
    assert "expected some of 100,400,1600,6400,23000" in capsys.readouterr().err


def test_a_dry_run_prints_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_imdb.main(["--dry-run", "--sizes=400"]) == 0
    said = capsys.readouterr().out
    assert said.count("python -m electra_tf.run_finetuning") == 2
    assert "# pre-training: to run" in said
    flags = ["--dry-run", "--sizes=400", "--embeddings-alone"]
    assert run_imdb.main(flags) == 0
    assert "build/imdb/parts/embeddings" in capsys.readouterr().out
