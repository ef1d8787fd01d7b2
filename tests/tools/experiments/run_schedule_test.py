"""Tests of run_schedule.py: the plan, the sums and the tables."""

import pytest
import run_schedule
import schedule_plot
from run_schedule import STRAIGHT, TRUNK

from electra_tf.training import optimization


@pytest.fixture(scope="module")
def parts():
    return {
        (part.way, part.length, part.seed): part
        for part in run_schedule.parts("out", (1, 2))
    }


def test_each_seed_has_runs_of_all_lengths_and_a_trunk(parts):
    assert list(parts)[:6] == [
        (STRAIGHT, 2000, 1),
        (STRAIGHT, 4000, 1),
        (STRAIGHT, 6000, 1),
        (TRUNK, 6000, 1),
        (TRUNK, 2000, 1),
        (TRUNK, 4000, 1),
    ]
    assert len(parts) == 12
    steps = {
        way: sum(p.num_steps for p in parts.values() if p.way == way)
        for way in (STRAIGHT, TRUNK)
    }
    assert steps == {STRAIGHT: 24000, TRUNK: 13800}


def test_a_branch_goes_on_where_its_decay_begins(parts):
    branch, trunk = parts[TRUNK, 4000, 2].run, parts[TRUNK, 6000, 2].run
    assert branch.needs == (trunk.model_dir,) == ("out/seed_2/trunk_6000",)
    config = branch.config
    assert config.init_checkpoint == "out/seed_2/trunk_6000/model.ckpt-3400"
    assert config.keep_global_step
    assert config.run.num_train_steps == 4000
    assert config.optimizer.decay_steps(4000) == 600
    # The trunk has it.
    assert 3400 % trunk.config.run.save_checkpoints_steps == 0
    assert trunk.config.run.keep_checkpoint_max > 6000 / 850
    assert not trunk.config.init_checkpoint


@pytest.mark.parametrize("length", run_schedule.LENGTHS)
def test_before_its_decay_a_length_has_the_rates_of_the_trunk(parts, length):
    def rate(run, step):
        optimizer, steps = run.config.optimizer, run.config.run.num_train_steps
        return float(
            optimization.WarmupPolynomialDecay(
                optimizer.learning_rate,
                steps,
                optimizer.warmup_steps(steps),
                num_decay_steps=optimizer.decay_steps(steps),
            )(step)
        )

    trunk, branch = parts[TRUNK, 6000, 1].run, parts[TRUNK, length, 1].run
    first = run_schedule.first_step(length)
    for step in (0, 250, first):
        assert rate(branch, step) == rate(trunk, step)
    assert rate(branch, first) == pytest.approx(2e-3)
    assert rate(branch, length) == 0.0
    # By itself it warms up for as long, and its rate is falling by then.
    straight = parts[STRAIGHT, length, 1].run
    warmed_up = straight.config.optimizer.warmup_steps(length)
    assert warmed_up == trunk.config.optimizer.warmup_steps(6000) == 500
    assert rate(straight, warmed_up) == pytest.approx(
        2e-3 * (1 - warmed_up / length)
    )


def record(way, length, seed, loss, cpu_seconds):
    branch = 0.15 if way == TRUNK and length < 6000 else 1.0
    return {
        "way": way,
        "length": length,
        "seed": seed,
        "num_steps": round(length * branch),
        "cpu_seconds": cpu_seconds,
        "heldout": {
            "total_loss": loss,
            "disc_auc": 0.7,
            "masked_lm_accuracy": 0.2,
        },
        "curve": [[1700, loss + 1.0], [length, loss]],
    }


def figures(num_seeds=2):
    runs = [
        record(way, length, seed, loss + 0.1 * seed * sign, seconds)
        for seed in range(1, num_seeds + 1)
        for way, sign, seconds in ((STRAIGHT, 1, 60.0), (TRUNK, 2, 30.0))
        for length, loss in ((2000, 29.0), (4000, 28.0), (6000, 27.0))
    ]
    return {
        "lengths": list(run_schedule.LENGTHS),
        "runs": runs,
        "summary": run_schedule.summarize(runs),
    }


def test_a_seed_counts_when_all_of_it_is_there():
    runs = figures(num_seeds=3)["runs"]
    assert run_schedule.summarize(runs[:-1])["seeds"] == [1, 2]
    assert run_schedule.summarize(runs[:5]) == {}


def test_tables_of_losses_and_of_cost():
    tables = run_schedule.blocks(figures())
    rows = tables["schedule"].splitlines()
    cells = [cell.strip() for cell in rows[2].strip("|").split("|")]
    assert cells == [
        "2,000",
        "300",
        "29.15 +- 0.07",
        "29.30 +- 0.14",
        "+0.15 [-0.49, +0.79]",
        "0.700 +- 0.000",
        "0.700 +- 0.000",
    ]
    cost = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in tables["schedule-cost"].splitlines()[2:]
    ]
    assert cost == [
        ["steps", "12,000", "6,900", "57.5 %"],
        ["CPU minutes", "3.0", "1.5", "50.0 %"],
    ]


def test_a_cost_that_is_not_known_is_left_out():
    found = figures()
    found["runs"][0]["cpu_seconds"] = None
    found["summary"] = run_schedule.summarize(found["runs"])
    assert found["summary"]["cpu_minutes"][STRAIGHT] == 3.0
    assert found["summary"]["cpu_minutes"]["seeds"] == [2]


def test_one_seed_has_no_interval():
    table = run_schedule.blocks(figures(1))["schedule"]
    assert " 29.10 " in table and " +0.10 " in table


def test_the_plot_is_written(tmp_path):
    schedule_plot.draw(figures(), str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_branch_is_drawn_from_the_trunk_on():
    found = schedule_plot._curves(figures()["runs"], {1, 2})
    assert [step for step, _ in found[TRUNK, 4000]] == [1700, 4000]
    assert found[TRUNK, 2000][0] == found[TRUNK, 6000][0]


def test_without_a_run_there_is_no_table(tmp_path, capsys):
    code = run_schedule.main(
        [f"--output_dir={tmp_path}", "--table_only", "--seeds=1"]
    )
    assert code == 0
    assert "no seed is complete" in capsys.readouterr().out


def test_a_binding_of_what_is_compared_is_one_line(tmp_path, capsys):
    flags = [f"--output_dir={tmp_path}", "--table_only"]
    param = "OptimizerConfig.decay_proportion=0.5"
    assert run_schedule.main([*flags, f"--gin_param={param}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"the comparison leaves open. Received: {param}")
    assert not list(tmp_path.iterdir())
