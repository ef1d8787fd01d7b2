"""The figures of docs/imdb.md -> its tables."""

from collections.abc import Sequence

import results_table

CONTESTANTS = {
    "pretrained": "pre-trained",
    "from_scratch": "random weights",
    "tfidf": "TF-IDF",
}


def blocks(figures: dict) -> dict[str, str]:
    """Name of each table of the page -> Markdown."""
    rows = [row for row in figures["rows"] if len(row) > 1]
    return {
        "accuracy": _accuracy(rows),
        "settings": _settings(rows),
        "pretraining": _pretraining(figures["pretraining"]),
    }


def _accuracy(rows: Sequence[dict]) -> str:
    table = [
        ["labels"]
        + [CONTESTANTS[name] for name in CONTESTANTS]
        + ["pre-trained minus TF-IDF", "seeds"]
    ]
    for row in rows:
        difference = row.get("pretrained_minus_tfidf")
        seeds = [
            str(len(row[start]["test"]["seeds"]))
            for start in CONTESTANTS
            if start in row and start != "tfidf"
        ]
        table.append(
            [f"{row['labels']:,}"]
            + [_score(row.get(name)) for name in CONTESTANTS]
            + ["" if difference is None else f"{difference:+.1f}"]
            + [", ".join(dict.fromkeys(seeds))]
        )
    return results_table.markdown(table)


def _score(found: dict | None) -> str:
    """Accuracy on test: '81.2 +- 0.4', or what there is of it."""
    if found is None:
        return ""
    if "test_accuracy" in found:
        return f"{found['test_accuracy']:.1f}"
    test = found["test"]
    spread = "" if test["stdev"] is None else f" +- {test['stdev']:.1f}"
    return f"{test['mean']:.1f}{spread}"


def _settings(rows: Sequence[dict]) -> str:
    table = [
        ["labels", "epochs", "epochs from random weights", "C of TF-IDF"]
        + [f"CPU minutes, {name}" for name in CONTESTANTS.values()]
    ]
    for row in rows:
        epochs = [
            f"{row[start]['num_epochs']:g}" if start in row else ""
            for start in ("pretrained", "from_scratch")
        ]
        strength = f"{row['tfidf']['strength']:g}" if "tfidf" in row else ""
        table.append(
            [f"{row['labels']:,}", *epochs, strength]
            + [_cpu_minutes(row.get(name)) for name in CONTESTANTS]
        )
    return results_table.markdown(table)


def _cpu_minutes(found: dict | None) -> str:
    """Of one model, its scoring included."""
    if found is None:
        return ""
    if "cpu_seconds" in found:
        return f"{found['cpu_seconds'] / 60.0:.2f}"
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
    return results_table.markdown(table)
