"""The rows of the record table, and the runs that are there -> its figures.

A row is pre-trained and fine-tuned by one gin file each below gin/records; it
differs from the row before it in what `Record.change` says. `run_records` runs
them, docs/records.md has the rules.
"""

import json
import pathlib
import statistics
import typing
from collections.abc import Iterable, Sequence

import results_table
import tf_idf

from electra_tf import model_directory

# A model directory of each seed.
PRETRAINING = "pretraining"
# Beside it: of the same corrupted text for all, see `fixed_corruption`.
FIXED_FILE = "fixed_corruption.json"

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
        return f"gin/records/{self.pretraining}.gin"

    @property
    def finetuning_gin_file(self) -> str:
        return f"gin/records/{self.finetuning}.gin"


_FIRST = "first_finetuning"
_ONE_RATE = "one_rate"

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


# --- Runs -> figures ----------------------------------------------------------


def collect(output_dir: str, quickstart_dir: str) -> dict:
    """What was measured of all rows of which anything is finished.

    Args:
      output_dir: Of `run_records`.
      quickstart_dir: Of the quickstart: its labelled texts, and what it
        trained, as far as it is there.

    Returns:
      "rules"; "rows", each with "name", "change", "pretraining", "finetuning"
      and "seeds" (see `_seed`); "baseline", see `tf_idf`; "quickstart", see
      `_quickstart`.
    """
    rows = []
    for record in RECORDS:
        found = {}
        pattern = f"{record.pretraining}/seed_*"
        for folder in sorted(pathlib.Path(output_dir).glob(pattern)):
            if seed := _seed(folder, record):
                found[folder.name.removeprefix("seed_")] = seed
        if found:
            rows.append(record._asdict() | {"seeds": found})
    return {
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


def _seed(folder: pathlib.Path, record: Record) -> dict | None:
    """The figures of one seed; None where fine-tuning is not finished.

    Returns:
      "date", "commit" and "flags" of pre-training, "num_steps",
      "cpu_minutes", held-out "disc_auc", "masked_lm_accuracy" and "fixed_auc"
      (None where it was not judged), "minutes_to_target" (None if it was not
      reached), "finetuning_cpu_minutes", "dev" and "test" in per cent.
    """
    pretraining = folder / PRETRAINING
    results = folder / record.finetuning / model_directory.RESULTS_FILE
    evaluation = pretraining / model_directory.EVAL_RESULTS_FILE
    if not (results.is_file() and evaluation.is_file()):
        return None
    last = _read(evaluation)
    started = (pretraining / model_directory.RUNS_FILE).read_text("utf-8")
    run = json.loads(started.splitlines()[-1])
    minutes = _minutes(pretraining)
    fixed = pretraining / FIXED_FILE
    (trial,) = _read(results)["trials"]
    log = model_directory.read_metrics(
        str(pretraining / model_directory.METRICS_FILE)
    )
    return {
        "date": run["time"][:10],
        "commit": (run["git_commit"] or "")[:7],
        "flags": run["argv"][1:],
        "num_steps": last["step"],
        "cpu_minutes": minutes,
        "disc_auc": last["disc_auc"],
        "masked_lm_accuracy": last["masked_lm_accuracy"],
        "fixed_auc": _read(fixed)["auc"] if fixed.is_file() else None,
        "minutes_to_target": minutes_to_target([*log, last], minutes),
        "finetuning_cpu_minutes": _minutes(folder / record.finetuning),
        "dev": trial["dev"]["accuracy"],
        "test": trial["test"]["accuracy"],
    }


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


def _minutes(model_dir: pathlib.Path) -> float:
    cost = model_dir.with_name(f"{model_dir.name}.cost.json")
    return _read(cost)["cpu_seconds"] / 60.0


def _read(path: pathlib.Path) -> dict:
    return json.loads(path.read_text("utf-8"))


def _baseline(data_dir: pathlib.Path) -> dict:
    splits = {}
    for name in ("train", "dev", "test"):
        lines = (data_dir / f"{name}.tsv").read_text("utf-8").split("\n")[1:]
        rows = [line.split("\t") for line in lines if line]
        splits[name] = tf_idf.Rows(*map(list, zip(*rows, strict=True)))
    train, dev, test = splits.values()
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
            trials = _read(path)["trials"]
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
    best = figures["baseline"]
    table = [["start", "trials", "dev", "test"]]
    for start in _STARTS:
        if scores := figures["quickstart"].get(start):
            number = str(len(scores["dev"]))
            cells = [spread(scores[split], 1) for split in ("dev", "test")]
            table.append([start, number, *cells])
    table.append(
        [
            "TF-IDF, logistic regression",
            "",
            f"{best['dev_accuracy']:.1f}",
            f"{best['test_accuracy']:.1f}",
        ]
    )
    return results_table.markdown(table)


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
    return results_table.markdown(table)


def spread(values: Iterable[float | None], decimals: int) -> str:
    """'61.2 +- 0.8', '61.2' of one seed, '' where one is not known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    mean = f"{statistics.fmean(known):.{decimals}f}"
    if len(known) == 1:
        return mean
    return f"{mean} +- {statistics.stdev(known):.{decimals}f}"


def _times(seeds: Sequence[dict]) -> str:
    """Minutes to the target, and how many seeds reached it."""
    times = [seed["minutes_to_target"] for seed in seeds]
    reached = [time for time in times if time is not None]
    if not reached:
        return "none"
    missed = len(times) - len(reached)
    return spread(reached, 1) + (f" ({missed} never)" if missed else "")
