"""The figures of docs/imdb.md -> its tables."""

from collections.abc import Sequence

import experiments_table
import imdb_runs
import tables

CONTESTANTS = {
    "pretrained": "pre-trained",
    "embeddings": "embeddings alone",
    "from_scratch": "random weights",
    "frozen": "frozen",
    "latent": "LSA",
    "tfidf": "TF-IDF",
}
# Frozen vectors are read once for all numbers of labels.
_TIMED = ("pretrained", "embeddings", "from_scratch", "tfidf")


def blocks(figures: dict) -> dict[str, str]:
    """Name of each table of the page -> Markdown."""
    rows = [row for row in figures["rows"] if len(row) > 1]
    return {
        "accuracy": _accuracy(rows),
        "settings": _settings(rows),
        "pretraining": _pretraining(figures["pretraining"]),
    }


def _accuracy(rows: Sequence[dict]) -> str:
    contestants = [n for n in CONTESTANTS if any(n in row for row in rows)]
    table = [
        ["labels"]
        + [CONTESTANTS[name] for name in contestants]
        + ["pre-trained minus TF-IDF", "seeds"]
    ]
    for row in rows:
        difference = row.get("pretrained_minus_tfidf")
        seeds = [
            str(len(row[name]["test"]["seeds"])) if name in row else "0"
            for name in contestants
            if name not in imdb_runs.LINEAR
        ]
        table.append(
            [f"{row['labels']:,}"]
            + [score(row.get(name)) for name in contestants]
            + ["" if difference is None else f"{difference:+.1f}"]
            + [", ".join(seeds)]
        )
    return tables.markdown(table)


def score(found: dict | None) -> str:
    """Accuracy on test: '81.2 +- 0.4', or what there is of it."""
    if found is None:
        return ""
    if "test_accuracy" in found:
        return f"{found['test_accuracy']:.1f}"
    return experiments_table.spread(found["test"])


def _settings(rows: Sequence[dict]) -> str:
    timed = [name for name in _TIMED if any(name in row for row in rows)]
    table = [
        ["labels", "epochs"]
        + [f"C of {CONTESTANTS[name]}" for name in imdb_runs.LINEAR]
        + [f"CPU minutes, {CONTESTANTS[name]}" for name in timed]
    ]
    for row in rows:
        epochs = dict.fromkeys(
            f"{row[name]['num_epochs']:g}"
            for name in CONTESTANTS
            if "num_epochs" in row.get(name, ())
        )
        strengths = [
            _choice(row[name]) if name in row else ""
            for name in imdb_runs.LINEAR
        ]
        table.append(
            [f"{row['labels']:,}", ", ".join(epochs), *strengths]
            + [_cpu_minutes(row.get(name)) for name in timed]
        )
    return tables.markdown(table)


def _choice(found: dict) -> str:
    """Of a logistic regression: '0.1, balanced, pairs, in 2 texts'."""
    parts = [f"{found['strength']:g}"]
    parts += ["balanced"] * found["is_balanced"]
    parts += ["pairs"] * (found["max_words"] == 2)
    parts += ["in 2 texts"] * (found["min_texts"] == 2)
    return ", ".join(parts)


def _cpu_minutes(found: dict | None) -> str:
    """Of one model, its scoring included."""
    if found is None:
        return ""
    if "cpu_seconds" in found:
        return f"{found['cpu_seconds'] / 60.0:.2f}"
    if found["cpu_minutes"] is None:
        return ""
    return f"{found['cpu_minutes'] / len(found['test']['seeds']):.2f}"


def _pretraining(found: dict) -> str:
    table = [["step", "disc_auc", "masked_lm_accuracy"]]
    for point in found["curve"]:
        table.append(
            [
                f"{point['step']:,}",
                f"{point['disc_auc']:.3f}",
                f"{point['masked_lm_accuracy']:.3f}",
            ]
        )
    return tables.markdown(table)
