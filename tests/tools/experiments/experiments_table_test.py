"""Tests of tools/experiments/experiments_{table,plot}.py."""

import dataclasses
import json
import math
import pathlib

import experiment_runs
import experiments_plot
import experiments_table
import pytest

from electra_tf import configs, model_directory

# Row -> budget -> one accuracy of RTE for each seed.
SCORES = {
    "electra": {1e12: (61.0, 62.0, 63.0), 2e12: (64.0, 64.0, 64.0)},
    "replace_mlm": {1e12: (60.0, 60.0, 60.0), 2e12: ()},
    "bert": {1e12: (60.0, 61.0, 62.5), 2e12: (50.0,)},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs of three rows; what is not in SCORES is missing."""
    options = experiment_runs.Options(
        "gin/experiments/tiny.gin",
        str(tmp_path_factory.mktemp("runs")),
        ("rte",),
        (1, 2, 3),
    )
    variants = experiment_runs.variants("objectives", (1e12, 2e12), options)
    for variant in variants:
        scores = SCORES.get(variant.row.name, {}).get(variant.budget, ())
        for seed, score in enumerate(scores, start=1):
            pretraining, rte = experiment_runs.runs_of(variant, seed, options)
            step = pretraining.num_train_steps
            write(pretraining, "eval_results.json", step, seed)
            path = pathlib.Path(pretraining.model_dir, "metrics.jsonl")
            path.write_text(
                '{"step": 10, "split": "train", "disc_auc": 1.0}\n'
                '{"step": 10, "split": "heldout", "masked_lm_accuracy": 0.1}\n'
                '{"ste'
            )
            pretraining.add_cost(seconds=1.0, cpu_seconds=90.0)
            write(rte, "results.json", 0, score)
            rte.add_cost(seconds=1.0, cpu_seconds=30.0)
    return options, variants


def write(run, name, step, figure):
    folder = pathlib.Path(run.model_dir)
    folder.mkdir(parents=True)
    (folder / "checkpoint").write_text("")
    record = json.dumps(model_directory.as_dict(run.config))
    (folder / "config.json").write_text(record)
    content = {"step": step, "masked_lm_accuracy": figure / 10}
    if name == "results.json":
        content = {"trials": [{"dev": {"accuracy": figure}}]}
    (folder / name).write_text(json.dumps(content))


@pytest.fixture(scope="module")
def results(runs):
    options, variants = runs
    return experiments_table.collect("objectives", variants, options)


def row(results, name, budget=1e12):
    (found,) = (
        row
        for row in results["rows"]
        if row["row"] == name and row["budget_flops"] == budget
    )
    return found


def test_interval_of_three_seeds():
    found = experiments_table.statistics_of([61.0, 62.0, 63.0])
    # Student's t of two degrees of freedom: 4.302653.
    half = 4.302653 / math.sqrt(3)
    assert found == {
        "mean": 62.0,
        "stdev": 1.0,
        "low": pytest.approx(62 - half, abs=1e-5),
        "high": pytest.approx(62 + half, abs=1e-5),
        "num_seeds": 3,
    }
    alone = experiments_table.statistics_of([61.0])
    assert alone["mean"] == 61.0 and alone["low"] is None
    assert experiments_table.statistics_of([]) is None


def test_rows_that_are_there(results):
    assert [(r["row"], r["budget_flops"]) for r in results["rows"]] == [
        ("electra", 1e12),
        ("replace_mlm", 1e12),
        ("bert", 1e12),
        ("electra", 2e12),
        ("bert", 2e12),
    ]
    electra = row(results, "electra")
    assert electra["score"]["mean"] == 62.0
    assert electra["heldout"]["masked_lm_accuracy"]["mean"] == pytest.approx(
        0.2
    )
    assert electra["seeds"]["2"]["cpu_seconds"] == 120.0
    assert row(results, "bert", 2e12)["score"]["num_seeds"] == 1


def test_differences_are_taken_seed_by_seed(results):
    difference = row(results, "bert")["minus_reference"]
    assert difference["mean"] == pytest.approx((-1 - 1 - 0.5) / 3)
    assert difference["high"] < 0  # But the rows' own intervals overlap.
    assert row(results, "bert")["score"]["high"] > 62.0
    assert row(results, "electra")["minus_reference"]["stdev"] == 0.0
    alone = row(results, "bert", 2e12)["minus_reference"]
    assert (alone["mean"], alone["num_seeds"]) == (-14.0, 1)


def test_curves_are_held_out_and_by_flops(results):
    found = row(results, "electra")
    (per_step,) = found["flops_per_step"]
    first, last = found["curve"]
    assert first == {
        "step": 10,
        "flops": 10 * per_step,
        "masked_lm_accuracy": pytest.approx(0.1),
    }
    assert last["flops"] == found["flops"]
    assert last["masked_lm_accuracy"] == pytest.approx(0.2)


def test_the_order_of_the_paper(results):
    first, second = results["ordering"]
    assert first == {
        "budget_flops": 1e12,
        "paper": ["electra", "replace_mlm", "bert"],
        "ours": ["electra", "bert", "replace_mlm"],
        "num_pairs": 3,
        "num_alike": 2,
        # electra before bert; of the others the seeds cannot tell.
        "num_clearly_alike": 1,
        "num_clearly_other": 0,
    }
    assert second["paper"] == second["ours"] == ["electra", "bert"]


def cells_of(line):
    """Of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table(results):
    lines = experiments_table.markdown(results).splitlines()
    header, _, electra, _, bert = lines[6:11]
    assert cells_of(header) == [
        "row",
        "seeds",
        "mean",
        "minus electra",
        "paper",
        "RTE, accuracy",
        "masked_lm_accuracy",
        "steps",
        "FLOPs",
        "CPU minutes",
    ]
    assert cells_of(electra) == [
        "ELECTRA",
        "3",
        "62.0 +- 1.0 [59.5, 64.5]",
        "",
        "85.0",
        "62.0 +- 1.0",
        "0.200",
        "544",
        "9.99e11",
        "2.0",
    ]
    assert "| **-0.8 [-1.6, -0.1]** | 82.2 " in bert
    assert "## 2e12 FLOPs a row" in lines
    assert (
        "Paper: electra > replace_mlm > bert. Ours: electra > bert > "
        "replace_mlm. Of 3 pairs that the paper tells apart, 2 are in its "
        "order here; 1 in its order and 0 in the other one by more than the "
        "seeds explain."
    ) in lines


def test_tables_of_a_page(results):
    blocks = experiments_table.blocks(results)
    assert list(blocks) == ["objectives-1e12", "objectives-2e12"]
    for table in blocks.values():
        assert table in experiments_table.markdown(results)
    older = results | {"name": "objectives-older"}
    assert list(experiments_table.blocks(older))[0] == "objectives-older-1e12"


def test_figures_of_heads_that_read_a_mean(runs):
    options, variants = runs
    options = dataclasses.replace(options, pooling="mean")
    found = experiments_table.collect("objectives", variants, options)
    assert "name" not in experiments_table.collect(
        "objectives", variants, runs[0]
    )
    # Pre-training is shared, and nothing has been fine-tuned so.
    assert row(found, "electra")["heldout"]
    assert row(found, "electra")["score"] is None
    assert list(experiments_table.blocks(found))[0] == "objectives-mean-1e12"
    assert "read the mean of all tokens" in experiments_table.markdown(found)


def test_a_column_of_nothing_is_left_out(results):
    rows = [r | {"paper": None, "seeds": {}} for r in results["rows"]]
    header = experiments_table.blocks(results | {"rows": rows})[
        "objectives-1e12"
    ].splitlines()[0]
    assert not {"paper", "CPU minutes"} & set(cells_of(header))
    assert "minus electra" in cells_of(header)


def test_runs_of_another_configuration_are_left_out(runs, capsys):
    options, variants = runs
    others = [
        experiment_runs.Variant(
            variant.row, variant.budget, variant.folder, (other,)
        )
        for variant in variants[:1]
        for other in [change(variant.stages[0])]
    ]
    found = experiments_table.collect("objectives", others, options)
    # Its fine-tuning may still be what it was.
    assert not found["rows"][0]["heldout"]
    assert "not in the table: " in capsys.readouterr().err


def change(stage):
    """A stage with another rate."""
    config = dataclasses.replace(
        stage.config, optimizer=configs.OptimizerConfig(1e-2)
    )
    return dataclasses.replace(stage, config=config)


@pytest.mark.parametrize("budgets", [(1e12,), (1e12, 2e12)])
def test_plot(results, budgets, tmp_path, monkeypatch):
    from matplotlib import figure

    drawn = []
    save = figure.Figure.savefig

    def remember(self, *args, **kwargs):
        drawn.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(figure.Figure, "savefig", remember)
    rows = [r for r in results["rows"] if r["budget_flops"] in budgets]
    path = tmp_path / "plot.png"
    experiments_plot.draw(results | {"rows": rows}, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    scores, curves = drawn[0].axes
    assert len(scores.containers) == 3  # One for each row, with its bars.
    if len(budgets) == 1:
        labels = [label.get_text() for label in scores.get_yticklabels()]
        assert labels == ["ELECTRA", "Replace MLM", "BERT"]
        electra = scores.containers[0].lines[0].get_xydata()
        assert electra.tolist() == [[62.0, 0.0]]
    else:
        electra = scores.containers[0].lines[0].get_xydata()
        assert [y for _, y in electra] == [62.0, 64.0]
        assert scores.get_xscale() == "log"
    assert len(curves.lines) == len(rows)
