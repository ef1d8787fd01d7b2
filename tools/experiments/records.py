"""The rows of the record table -> their runs; what is finished -> its figures.

A row is pre-trained and fine-tuned by one gin file each below gin/records; it
differs from the row before it in what `Record.change` says. `run_records` runs
them, docs/records.md has the rules.
"""

import collections
import os
import pathlib
import statistics
import typing
from collections.abc import Iterable, Sequence

import experiment_runs
import experiments_table
import figure_files
import tables
import tf_idf
from experiment_runs import Run

from electra_tf import configs, files, model_directory
from electra_tf.command_line import gin_files as gin_files_lib
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.training import metrics_log

# A model directory of each seed.
PRETRAINING = "pretraining"
# Beside it: of the same corrupted text for all, see `fixed_corruption`.
FIXED_FILE = "fixed_corruption.json"
# In the folder of all runs: what a latent semantic analysis knows.
LATENT_FILE = "latent.json"

# Runs are compared by CPU time, which more threads would add to.
_ONE_THREAD = (
    "RunConfig.num_intra_op_threads=1",
    "RunConfig.num_parallel_parts=1",
)

# Record (a): CPU minutes until the discriminator ranks its own generator's
# replacements this well,
TARGET_AUC = 0.80
# while that generator is right at least this often at masked positions: what
# the first row's ends with. A weak one would make it easy.
ACCURACY_FLOOR = 0.22
# Record (b): CPU minutes of pre-training.
MOST_MINUTES = 10.0


class Record(typing.NamedTuple):
    """A row.

    Attributes:
      name: On the command line.
      pretraining: A gin file below gin/records, without ".gin".
      finetuning: Likewise; rows of one pre-training differ in this.
      change: Of the row, for people.
    """

    name: str
    pretraining: str
    finetuning: str
    change: str

    @property
    def pretraining_gin_file(self) -> str:
        return experiment_runs.gin_path(f"records/{self.pretraining}.gin")

    @property
    def finetuning_gin_file(self) -> str:
        return experiment_runs.gin_path(f"records/{self.finetuning}.gin")


_BASELINE = ("dev_accuracy", "test_accuracy")
_SCORES = (
    "cpu_minutes",
    "disc_auc",
    "masked_lm_accuracy",
    "fixed_auc",
    "dev",
    "test",
)
_FIRST = "first_finetuning"
_ONE_RATE = "one_rate"
_RATES_BY_LAYER = "rates_by_layer"

RECORDS: tuple[Record, ...] = (
    Record("first", "first", _FIRST, "the first quickstart"),
    Record("whole_texts", "first", "whole_texts", "long texts read in windows"),
    Record(
        "one_rate",
        "first",
        _ONE_RATE,
        "20 epochs, one rate for all layers, dropout",
    ),
    Record("small_batch", "small_batch", _ONE_RATE, "batches of 16"),
    Record("wide", "wide", _ONE_RATE, "128 wide, batches of 16"),
    Record("unigram", "unigram", _ONE_RATE, "words drawn by frequency"),
    Record("shared", "shared", _ONE_RATE, "one network for both parts"),
    Record("long", "long", _ONE_RATE, "10,000 steps"),
    Record("stable", "stable", _ONE_RATE, "warm-up, stable, decay"),
    Record(
        "two_networks", "two_networks", _ONE_RATE, "stable, with two networks"
    ),
    Record("longer", "longer", _ONE_RATE, "stable, 12,000 steps"),
    Record(
        "disc_weight",
        "disc_weight",
        _ONE_RATE,
        "stable, disc_weight 10, not 50",
    ),
    Record(
        "disc_weight_2", "disc_weight_2", _ONE_RATE, "stable, disc_weight 2"
    ),
    Record(
        "mask_share",
        "mask_share",
        _ONE_RATE,
        "disc_weight_2, 40 % masked, not 25",
    ),
    Record(
        "latent_semantics",
        "latent_semantics",
        _ONE_RATE,
        "mask_share, embeddings_from_data, 5,000 steps",
    ),
    Record(
        "neighbours",
        "neighbours",
        _ONE_RATE,
        "latent_semantics, 16 examples a text, exponent 1, 2,500 steps",
    ),
    Record(
        "rates_by_layer",
        "neighbours",
        _RATES_BY_LAYER,
        "heads on the mean, high rate above, low rates below",
    ),
    Record(
        "slow_embeddings",
        "slow_embeddings",
        _RATES_BY_LAYER,
        "rates_by_layer, embeddings_lr_scale 0.1",
    ),
)


def named(names: Sequence[str]) -> tuple[Record, ...]:
    """Some rows, in the table's order; all without names.

    Raises:
      ValueError: If there is no such row.
    """
    known = {record.name for record in RECORDS}
    for name in names:
        if name not in known:
            raise ValueError(
                f"Expected some of the rows {', '.join(sorted(known))}. "
                f"Received: {name}"
            )
    return tuple(r for r in RECORDS if not names or r.name in names)


# --- Rows -> runs -------------------------------------------------------------


def runs_of(record: Record, seed: int, output_dir: str) -> list[Run]:
    """Pre-training and fine-tuning of a row with one seed, in order.

    Raises:
      ConfigError: If a gin file does not load.
    """
    name = f"{record.pretraining} seed {seed}"
    folder = os.path.join(output_dir, record.pretraining, f"seed_{seed}")
    pretraining = experiment_runs.make_run(
        name,
        _loaded(
            configs.PretrainingConfig, record.pretraining_gin_file, _ONE_THREAD
        ),
        seed,
        os.path.join(folder, PRETRAINING),
        {},
        record.pretraining,
        1.0,
    )
    finetuning = experiment_runs.make_run(
        f"{name} {record.finetuning}",
        _loaded(
            finetuning_configs.FinetuningConfig,
            record.finetuning_gin_file,
            (_ONE_THREAD[0], "FinetuningConfig.num_trials=1"),
        ),
        seed,
        os.path.join(folder, record.finetuning),
        {"init_checkpoint": pretraining.model_dir},
        record.finetuning,
        1.0,
    )
    return [pretraining, finetuning]


def _loaded(config_class: type, gin_file: str, params: tuple[str, ...]):
    """A gin file, its bindings, and what they load to."""
    config = gin_files_lib.load(config_class, [gin_file], params)
    return (gin_file,), params, config


# --- Runs -> figures ----------------------------------------------------------


def collect(output_dir: str, quickstart_dir: str) -> dict:
    """What was measured of all rows of which anything is finished.

    Args:
      output_dir: Of `run_records`.
      quickstart_dir: Of the quickstart: its labelled texts, and what it
        trained, as far as it is there.

    Returns:
      "rules"; "rows", each with "name", "change", "pretraining", "finetuning",
      "seeds" (see `_seed`) and "means", those of its scores over the seeds;
      "baseline", see `tf_idf`; "latent", those of LATENT_FILE where it is
      there; "quickstart", see `_quickstart`.

    Raises:
      ValueError: If results, or the labelled texts, are missing or damaged, or
        rows were not fine-tuned on the same.
    """
    rows = []
    groups: dict = collections.defaultdict(list)
    for record in RECORDS:
        found = {}
        pattern = f"{record.pretraining}/seed_*"
        for folder in sorted(pathlib.Path(output_dir).glob(pattern)):
            number = folder.name.removeprefix("seed_")
            if not number.isdecimal():
                continue
            runs = runs_of(record, int(number), output_dir)
            if seed := _seed(*runs):
                found[number] = seed
                model_dir = runs[1].model_dir
                groups["all", "rows"].append(model_dir)
                groups[folder, "initial weights"].append(model_dir)
        if found:
            rows.append(_with_means(record._asdict() | {"seeds": found}))
    for (_, what), model_dirs in groups.items():
        experiment_runs.refuse_unlike(model_dirs, what)
    figures: dict[str, typing.Any] = {
        "rules": {
            "target_auc": TARGET_AUC,
            "accuracy_floor": ACCURACY_FLOOR,
            "most_minutes": MOST_MINUTES,
        },
        "rows": rows,
        "baseline": _baseline(
            pathlib.Path(quickstart_dir) / "corpus" / "labelled"
        ),
        "quickstart": _quickstart(pathlib.Path(quickstart_dir)),
    }
    latent = pathlib.Path(output_dir, LATENT_FILE)
    if latent.is_file():
        with figure_files.expecting("scores", latent):
            scores = files.read_json(latent)
            figures["latent"] = {name: scores[name] for name in _BASELINE}
    return figures


def read_earlier(path: str) -> dict:
    """Figures that `collect` returned at another time.

    Raises:
      ValueError: If they are missing or damaged, or have a row that this table
        does not have, or has with other gin files.
    """
    figures = files.read_json(path)
    known = {record.name: record for record in RECORDS}
    with figure_files.expecting("figures of the record table", path):
        blocks(figures)
        for row in figures["rows"]:
            record = known.get(row["name"])
            gin_names = row["pretraining"], row["finetuning"]
            if record is None or gin_names != record[1:3]:
                raise ValueError(
                    f"Expected the rows of this table in {path}. Received: "
                    f"{row['name']}, of the gin files {', '.join(gin_names)}."
                )
    return figures


def measured_seeds(figures: dict) -> set[tuple[str, int]]:
    """The (row, seed) pairs that figures have."""
    return {
        (row["name"], int(seed))
        for row in figures["rows"]
        for seed in row["seeds"]
    }


def merged(earlier: dict, figures: dict, path: str) -> dict:
    """Earlier figures, and new ones beside them and in their place.

    Args:
      earlier: What `read_earlier` returned.
      figures: What `collect` returned.
      path: Of the earlier ones, for messages.

    Returns:
      Figures with the seeds of both, the new ones' where both have one. Its
      commit and date are those of each.

    Raises:
      ValueError: If they are not of the same labelled texts.
    """
    for key in _BASELINE:
        ours, theirs = figures["baseline"][key], earlier["baseline"][key]
        if ours != theirs:
            raise ValueError(
                f"Expected figures of the same labelled texts in {path}. "
                f"Received: a TF-IDF whose {key} is {theirs}, and is {ours} on "
                "the texts that are there."
            )
    of_names = {row["name"]: row for row in earlier["rows"]}
    for row in figures["rows"]:
        before = of_names.get(row["name"], {"seeds": {}})
        of_names[row["name"]] = row | {"seeds": before["seeds"] | row["seeds"]}
    rows = [
        _with_means(of_names[r.name]) for r in RECORDS if r.name in of_names
    ]
    quickstart = earlier["quickstart"] | figures["quickstart"]
    return earlier | figures | {"rows": rows, "quickstart": quickstart}


def _with_means(row: dict) -> dict:
    """A row with the means over its seeds, of those that have a score."""
    means = {}
    for name in _SCORES:
        scores = [seed[name] for seed in row["seeds"].values()]
        if known := [score for score in scores if score is not None]:
            means[name] = statistics.fmean(known)
    return row | {"means": means}


def _seed(pretraining: Run, finetuning: Run) -> dict | None:
    """The figures of one seed; None where not all of it is finished.

    Returns:
      "date", "commit" and "flags" of pre-training, "num_steps",
      "cpu_minutes", held-out "disc_auc", "masked_lm_accuracy" and "fixed_auc"
      (None where it was not judged), "minutes_to_target" (None if it was not
      reached), "finetuning_cpu_minutes", "dev" and "test" in per cent.
    """
    for run in (pretraining, finetuning):
        if not (experiment_runs.is_of_table(run) and run.is_finished()):
            return None
    folder = pathlib.Path(pretraining.model_dir)
    evaluation = folder / model_directory.EVAL_RESULTS_FILE
    results = pathlib.Path(finetuning.model_dir) / model_directory.RESULTS_FILE
    start = experiment_runs.last_start(pretraining.model_dir)
    log = metrics_log.read(str(folder / model_directory.METRICS_FILE))
    minutes = _minutes(pretraining)
    fixed = folder / FIXED_FILE
    with figure_files.expecting("metrics of pre-training", evaluation):
        last = files.read_json(evaluation)
        found = {
            "date": start.get("time", "")[:10],
            "commit": (start.get("git_commit") or "")[:7],
            "flags": start.get("argv", [])[1:],
            "num_steps": last["step"],
            "cpu_minutes": minutes,
            "disc_auc": last["disc_auc"],
            "masked_lm_accuracy": last["masked_lm_accuracy"],
            "fixed_auc": None,
            "minutes_to_target": minutes_to_target([*log, last], minutes),
            "finetuning_cpu_minutes": _minutes(finetuning),
        }
    if fixed.is_file():
        with figure_files.expecting("an AUC", fixed):
            found["fixed_auc"] = files.read_json(fixed)["auc"]
    with figure_files.expecting("accuracy on dev and test", results):
        trial = files.read_json(results)["trials"][0]
        for split in ("dev", "test"):
            found[split] = trial[split]["accuracy"]
    return found


def minutes_to_target(log: Sequence[dict], minutes: float) -> float | None:
    """When a run had reached the target of record (a).

    Args:
      log: Lines of its metrics, of held-out evaluations too; the last is of its
        last step.
      minutes: Of the whole run: a step takes as long as any other.

    Returns:
      CPU minutes up to the first evaluation that keeps both rules; None if
      there is none.
    """
    for line in log:
        if (
            line.get("split", "heldout") == "heldout"
            and line["disc_auc"] >= TARGET_AUC
            and line["masked_lm_accuracy"] >= ACCURACY_FLOOR
        ):
            return minutes * line["step"] / log[-1]["step"]
    return None


def _minutes(run: Run) -> float:
    """CPU minutes, which are what the table is about.

    Raises:
      ValueError: If they are not known.
    """
    seconds = run.cost().get("cpu_seconds")
    if seconds is None:
        raise ValueError(
            f"Expected the CPU seconds of {run.title}. Received: none in "
            f"{run.cost_file}; move {run.model_dir} away to run it again."
        )
    return seconds / 60.0


def _baseline(data_dir: pathlib.Path) -> dict:
    train, dev, test = (
        tf_idf.read_rows(data_dir / f"{name}.tsv")
        for name in ("train", "dev", "test")
    )
    return tf_idf.fit(train, dev, test)[0]._asdict()


# A start -> its model directory.
_STARTS = {
    "pre-trained": "finetune_pretrained",
    "random weights": "finetune_from_scratch",
}


def _quickstart(folder: pathlib.Path) -> dict:
    """What the quickstart's fine-tuned models scored.

    Returns:
      Start -> "dev" and "test" in per cent of each trial; and "answers", the
      lines of its query.
    """
    found: dict[str, typing.Any] = {}
    for start, name in _STARTS.items():
        path = folder / name / model_directory.RESULTS_FILE
        if path.is_file():
            with figure_files.expecting("accuracy of each trial", path):
                trials = files.read_json(path)["trials"]
                found[start] = {
                    split: [trial[split]["accuracy"] for trial in trials]
                    for split in ("dev", "test")
                }
    answers = folder / "query.txt"
    if answers.is_file():
        found["answers"] = answers.read_text("utf-8").splitlines()
    return found


# --- Figures -> tables --------------------------------------------------------


def blocks(figures: dict) -> dict[str, str]:
    """The tables of docs/records.md, by their names."""
    rows = figures["rows"]
    return {
        "quickstart": _quickstart_table(figures),
        "records": _table(rows, figures),
    }


def _quickstart_table(figures: dict) -> str:
    table = [["start", "trials", "dev", "test"]]
    for start in _STARTS:
        if scores := figures["quickstart"].get(start):
            number = str(len(scores["dev"]))
            cells = [spread(scores[split], 1) for split in ("dev", "test")]
            table.append([start, number, *cells])
    for name, title in (("latent", "LSA"), ("baseline", "TF-IDF")):
        if name in figures:
            scores = [f"{figures[name][key]:.1f}" for key in _BASELINE]
            table.append([f"{title}, logistic regression", "", *scores])
    return tables.markdown(table)


def _table(rows: Sequence[dict], figures: dict) -> str:
    target = figures["rules"]["target_auc"]
    table = [
        [
            "row",
            "date",
            "commit",
            "change",
            "seeds",
            "steps",
            "CPU minutes",
            "disc_auc",
            "masked_lm_accuracy",
            "AUC, fixed text",
            f"CPU minutes to {target:.2f}",
            "dev",
            "test",
        ]
    ]
    for row in rows:
        seeds = list(row["seeds"].values())

        def of(name, decimals, seeds=seeds):
            return spread((seed[name] for seed in seeds), decimals)

        table.append(
            [
                f"`{row['name']}`",
                max(seed["date"] for seed in seeds),
                ", ".join(sorted({seed["commit"] for seed in seeds})),
                row["change"],
                str(len(seeds)),
                f"{seeds[0]['num_steps']:,}",
                of("cpu_minutes", 1),
                of("disc_auc", 3),
                of("masked_lm_accuracy", 3),
                of("fixed_auc", 3),
                _times(seeds),
                of("dev", 1),
                of("test", 1),
            ]
        )
    return tables.markdown(table)


def spread(values: Iterable[float | None], decimals: int) -> str:
    """'61.2 +- 0.8', '61.2' of one seed, '' where none is known.

    Where some are not known it says of how many it is: '61.2 +- 0.8 (2 seeds)'.
    """
    values = list(values)
    known = [value for value in values if value is not None]
    summary = experiments_table.statistics_of(known)
    text = experiments_table.spread(summary, decimals)
    if known and len(known) < len(values):
        text += f" ({len(known)} seed{'s' if len(known) > 1 else ''})"
    return text


def _times(seeds: Sequence[dict]) -> str:
    """Minutes to the target, and how many seeds reached it."""
    times = [seed["minutes_to_target"] for seed in seeds]
    reached = [time for time in times if time is not None]
    if not reached:
        return "none"
    missed = len(times) - len(reached)
    return spread(reached, 1) + (f" ({missed} never)" if missed else "")
