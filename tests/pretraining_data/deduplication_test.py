"""Tests of electra_tf/pretraining_data/deduplication.py."""

import random

import numpy as np
import pytest

from electra_tf.pretraining_data import deduplication

RNG = random.Random(0)
WORDS = [f"w{i}" for i in range(3000)]


def document(num_words=200):
    return [" ".join(RNG.choices(WORDS, k=num_words))]


def changed(lines, num_changes):
    """With some words replaced, far from one another."""
    words = " ".join(lines).split()
    for i in range(num_changes):
        words[(2 * i + 1) * len(words) // (2 * num_changes)] = f"new{i}"
    return [" ".join(words)]


def records_of(documents, with_signatures=True):
    fingerprint = deduplication.Fingerprinter(with_signatures)
    return np.concatenate(
        list(fingerprint((i, lines) for i, lines in enumerate(documents)))
    )


def jaccard(a, b):
    runs = []
    for lines in (a, b):
        words = " ".join(lines).split()
        runs.append({tuple(words[i : i + 5]) for i in range(len(words) - 4)})
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def test_equal_words_are_exact_duplicates():
    documents = [
        ["A b", "c"],
        ["a", "b  C"],
        ["a b c d"],
        ["a b c"],
        ["a b"],
    ]
    for with_signatures, threshold in ((False, None), (True, 0.9)):
        found = deduplication.decide(
            records_of(documents, with_signatures), threshold
        )
        assert found["kept"].tolist() == [-1, 0, -1, 0, -1]
        assert found["is_exact"].tolist() == [False, True, False, True, False]
        assert found["similarity"].tolist() == [0, 1, 0, 1, 0]


def test_near_duplicates_are_found_and_others_are_not():
    originals = [document() for _ in range(60)]
    near = [changed(lines, 2) for lines in originals]
    far = [changed(lines, 15) for lines in originals]
    similarities = [*map(jaccard, originals, near)]
    assert min(similarities) > 0.88
    assert max(map(jaccard, originals, far)) < 0.5
    records = records_of(originals + near + far)
    found = deduplication.decide(records, 0.75)
    assert found["kept"].tolist() == [-1] * 60 + [*range(60)] + [-1] * 60
    # 60 estimates of a deviation of 0.04 each.
    estimates = found["similarity"][60:120]
    assert np.mean(estimates) == pytest.approx(np.mean(similarities), abs=0.02)
    assert not found["is_exact"].any()


def test_chains_lead_to_the_first():
    first = document()
    second = changed(first, 2)
    third = [*second, "and one more"]
    found = deduplication.decide(
        records_of([document(), first, second, third]), 0.75
    )
    assert found["kept"].tolist() == [-1, -1, 1, 1]


def test_fingerprints_do_not_depend_on_what_is_around(monkeypatch):
    documents = [document(n) for n in (1, 4, 5, 6, 300, 2)]
    together = records_of(documents)
    alone = [records_of([lines])[0] for lines in documents]
    for field in ("digest", "signature"):
        np.testing.assert_array_equal(
            together[field], [record[field] for record in alone]
        )
    monkeypatch.setattr(deduplication, "_BATCH_WORDS", 3)
    assert records_of(documents).tobytes() == together.tobytes()


def test_fingerprints_stay_what_they_are():
    # Another value would mean other duplicates than an earlier build had.
    (record,) = records_of([["some words that will not change"]])
    assert record["digest"].tolist() == [
        15134449802800125201,
        13234351280758664125,
    ]
    assert record["signature"][:2].tolist() == [177753355, 1886541359]


def test_held_out_documents_are_chosen_by_their_words():
    digests = [deduplication.digest_of([f"words {i}"]) for i in range(4000)]
    share = [deduplication.is_held_out(digest, 0.1) for digest in digests]
    assert sum(share) / 4000 == pytest.approx(0.1, abs=0.02)
    # A larger share holds out the same ones and more.
    assert all(
        deduplication.is_held_out(digest, 0.2)
        for digest, held_out in zip(digests, share, strict=True)
        if held_out
    )
    assert deduplication.digest_of(["Words", " 1"]) == digests[1]
    assert not any(deduplication.is_held_out(d, 0.0) for d in digests[:100])
    assert all(deduplication.is_held_out(d, 1.0) for d in digests[:100])
