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


# --- Figures of another time --------------------------------------------------


def only_seeds(results, *seeds):
    """The figures as they are while others have not been run."""
    rows = []
    for row in results["rows"]:
        kept = {s: found for s, found in row["seeds"].items() if s in seeds}
        if kept:
            more = experiments_table._summaries(kept, results["tasks"])
            rows.append(row | {"seeds": kept} | more)
    return results | experiments_table._compared(rows, results["reference"])


def test_seeds_of_two_times_make_the_table_of_all(results):
    earlier = only_seeds(results, "2")
    assert row(earlier, "bert")["score"]["num_seeds"] == 1
    new = only_seeds(results, "1", "3")
    found = experiments_table.merged(earlier, new, "figures")
    # What is known of one time alone is kept, too.
    assert row(found, "bert", 2e12) == row(results, "bert", 2e12)
    assert found == results


def test_new_figures_take_the_place_of_earlier_ones(results):
    earlier = json.loads(json.dumps(results))
    electra = row(earlier, "electra")
    electra["seeds"]["1"]["tasks"]["rte"] = 0.0
    electra["curve"][0]["masked_lm_accuracy"] = 0.9
    assert experiments_table.merged(earlier, results, "figures") == results


def test_what_is_only_begun_takes_nobodys_place(results):
    begun = json.loads(json.dumps(results))
    seeds = row(begun, "electra")["seeds"]
    for found in seeds.values():
        found |= {"tasks": {}, "score": None, "cpu_seconds": 1.0}
    merged = experiments_table.merged(results, begun, "figures")
    assert row(merged, "electra")["seeds"] == row(results, "electra")["seeds"]
    # Nor is it in the mean of what it took.
    seeds["2"] = row(results, "electra")["seeds"]["2"]
    text = experiments_table._table([row(begun, "electra")], begun)
    assert text.splitlines()[-1].split()[-2] == "2.0", text


def test_curves_of_two_times_count_by_their_seeds(results):
    earlier, new = only_seeds(results, "1", "2"), only_seeds(results, "3")
    point = row(earlier, "electra")["curve"][0]
    row(new, "electra")["curve"] = [point | {"masked_lm_accuracy": 0.4}]
    found = experiments_table.merged(earlier, new, "figures")
    first, last = row(found, "electra")["curve"]
    assert first["masked_lm_accuracy"] == pytest.approx((0.1 * 2 + 0.4) / 3)
    # One of the two has not been evaluated there.
    assert last == row(results, "electra")["curve"][1]


def test_measured_seeds_have_every_task(results):
    found = experiments_table.measured_seeds(results)
    assert {seed for name, *_, seed in found if name == "electra"} == {1, 2, 3}
    assert ("bert", 2e12, 1) in found and ("bert", 2e12, 2) not in found
    untested = json.loads(json.dumps(results))
    row(untested, "bert", 2e12)["seeds"]["1"]["score"] = None
    assert ("bert", 2e12, 1) not in experiments_table.measured_seeds(untested)


def test_rows_of_another_text_are_no_table(results, runs, tmp_path):
    first, second = (
        json.loads(json.dumps(only_seeds(results, seed))) for seed in "12"
    )
    row(first, "bert")["seeds"]["1"]["train_data"] = "ab"
    experiments_table.merged(first, second, "figures")
    row(second, "electra")["seeds"]["2"]["train_data"] = "cd"
    with pytest.raises(ValueError, match="others of .* than of .*, seed [12]"):
        experiments_table.merged(first, second, "figures")


def test_a_digest_of_the_text_is_kept(runs):
    options, variants = runs
    pretraining = experiment_runs.runs_of(variants[0], 1, options)[0]
    path = pathlib.Path(pretraining.model_dir, "train_data.json")
    path.write_text('{"sha256": "ab", "heldout": null}')
    found = experiments_table.collect("objectives", variants, options)
    assert row(found, "electra")["seeds"]["1"]["train_data"] == "ab"
    assert "train_data" not in row(found, "electra")["seeds"]["2"]
    path.unlink()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"suite": "models"}, "suite objectives in .*Received: models"),
        ({"tasks": ["rte", "cola"]}, "tasks rte in .*Received: rte,cola"),
        (
            {"pooling": "mean"},
            f"pooling {configs.DEFAULT_POOLING} in .*Received: mean",
        ),
        ({"rows": [{"row": "bert"}]}, "figures of objectives. Received: "),
    ],
)
def test_earlier_figures_of_something_else(
    results, runs, tmp_path, change, message
):
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(results | change))
    with pytest.raises(ValueError, match=message):
        experiments_table.read_earlier(str(path), "objectives", runs[0])


def test_earlier_figures_of_before_there_was_a_choice(results, runs, tmp_path):
    path = tmp_path / "figures.json"
    path.write_text(
        json.dumps({k: v for k, v in results.items() if k != "pooling"})
    )
    found = experiments_table.read_earlier(str(path), "objectives", runs[0])
    assert found["rows"] == results["rows"]


def test_earlier_figures_of_other_steps(results):
    earlier = json.loads(json.dumps(results))
    row(earlier, "bert")["num_train_steps"] = [7]
    with pytest.raises(ValueError, match=r"num_train_steps \[\d+\] of bert"):
        experiments_table.merged(earlier, results, "figures")


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
