"""Finds documents that repeat earlier ones, exactly or nearly; numpy only.

A document's *fingerprint* is a digest of its words (case and white space
aside) and a MinHash signature of its runs of five words: two documents agree
in a value of the signature with a chance that is the share of runs which they
have in common (Jaccard similarity; Broder 1997). Signatures are cut into
bands; documents that agree in a whole band are compared, and the later one is
a near duplicate if enough of the whole signature agrees.

Fingerprints depend on the document alone and duplicates on the order of the
corpus, not on who computes them. Fingerprints go to disk, RECORD.itemsize
bytes a document; finding duplicates takes some 60 bytes of memory a document.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# Words in a row that count as one feature.
SHINGLE_WORDS = 5
# Documents of similarity 0.8 agree in some band with a chance of 0.9998, those
# of similarity 0.3 with 0.12; the estimate from all values is good to 0.05.
NUM_BANDS = 16
ROWS_PER_BAND = 4
NUM_VALUES = NUM_BANDS * ROWS_PER_BAND

# What is kept of a document.
RECORD = np.dtype(
    [
        ("file", "<u4"),
        ("digest", "<u8", 2),
        ("signature", "<u4", NUM_VALUES),
    ]
)

# What becomes of a document.
DECISION = [
    # Whether the words are the same, and the likeness to the nearest copy.
    ("is_exact", "?"),
    ("similarity", "<f4"),
    # Number of the document that is kept in its place; -1 for those that stay.
    ("kept", "<i8"),
]

# Of signatures that are compared at once.
_PAIRS = 4096
_MAX_WORDS_REMEMBERED = 1 << 18
# Of words that are hashed at once: signatures stay in cache.
_BATCH_WORDS = 1 << 14


def normalized(lines: Sequence[str]) -> str:
    """A document's words, lower-cased, one space between them."""
    return " ".join(" ".join(lines).lower().split())


def digest_of(lines: Sequence[str]) -> bytes:
    """16 bytes that equal documents, and hardly any others, share."""
    return _hash(normalized(lines), 16)


def _hash(text: str, num_bytes: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=num_bytes).digest()


def is_held_out(digest: bytes, fraction: float) -> bool:
    """Whether a document belongs to the held-out share.

    Decided by the document's words alone: copies of a document are all held
    out or all not, in every build, whatever its seed.
    """
    # Other bits than those by which fingerprints are compared.
    draw = hashlib.blake2b(digest, digest_size=8, person=b"held out")
    return int.from_bytes(draw.digest(), "little") < fraction * 2**64


class Fingerprinter:
    """Makes fingerprints.

    Args:
      with_signatures: Whether near duplicates are looked for; otherwise the
        signatures are zeros.
    """

    def __init__(self, with_signatures: bool = True):
        self._with_signatures = with_signatures
        self._hashes: dict[str, bytes] = {}
        rng = np.random.Generator(np.random.PCG64(20030555))
        # Multiply-shift hashing of 64-bit numbers to 32 bits.
        self._factors = rng.integers(2**63, size=NUM_VALUES, dtype=np.uint64)
        self._factors = self._factors * np.uint64(2) + np.uint64(1)

    def __call__(
        self, documents: Iterable[tuple[int, Sequence[str]]]
    ) -> Iterator[np.ndarray]:
        """Fingerprints RECORD[(documents)], some at a time, of pairs of a
        file's number and a document's lines.
        """
        batch: list[tuple[int, str]] = []
        num_words = 0
        for file_number, lines in documents:
            text = normalized(lines)
            batch.append((file_number, text))
            num_words += text.count(" ") + 1
            if num_words >= _BATCH_WORDS:
                yield self._records(batch)
                batch, num_words = [], 0
        if batch:
            yield self._records(batch)

    def _records(self, batch: list[tuple[int, str]]) -> np.ndarray:
        records = np.zeros(len(batch), RECORD)
        records["file"] = [file_number for file_number, _ in batch]
        digests = b"".join(_hash(text, 16) for _, text in batch)
        records["digest"] = np.frombuffer(digests, "<u8").reshape(-1, 2)
        if self._with_signatures:
            records["signature"] = self._signatures([t for _, t in batch])
        return records

    def _signatures(self, texts: list[str]) -> np.ndarray:
        """<uint32>[(texts), NUM_VALUES]."""
        words: list[str] = []
        lengths = []
        for text in texts:
            own_words = text.split(" ")
            # So that a short document has a run of words too.
            own_words += [""] * (SHINGLE_WORDS - len(own_words))
            words += own_words
            lengths.append(len(own_words))
        known = self._hashes  # The same in every process.
        for word in {word for word in words if word not in known}:
            known[word] = _hash(word, 8)
        hashes = np.frombuffer(b"".join(map(known.__getitem__, words)), "<u8")
        if len(known) > _MAX_WORDS_REMEMBERED:
            known.clear()
        # Runs of words, those over the end of a document left out.
        runs = hashes.copy()
        for i in range(1, SHINGLE_WORDS):
            runs[:-i] = runs[:-i] * _MULTIPLIER + hashes[i:]
        num_runs = np.array(lengths) - (SHINGLE_WORDS - 1)
        word_ends = np.cumsum(lengths)
        keep = np.ones(len(words), bool)
        for i in range(1, SHINGLE_WORDS):
            keep[word_ends - i] = False
        runs = runs[keep]
        starts = np.cumsum(num_runs) - num_runs
        signatures = np.empty((NUM_VALUES, len(texts)), np.uint32)
        values = np.empty_like(runs)
        for i in range(NUM_VALUES):
            np.multiply(runs, self._factors[i], out=values)
            least = np.minimum.reduceat(values, starts)
            signatures[i] = least >> np.uint64(32)
        return signatures.T


# Odd, with bits all over: 2^64 / golden ratio.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def decide(records: np.ndarray, threshold: float | None) -> np.ndarray:
    """Finds for each document the earlier one that it repeats.

    Where copies form a chain, its first is kept, which its last may resemble
    less than the nearest copy.

    Args:
      records: RECORD[(documents)] in the order of the corpus, perhaps mapped
        from a file.
      threshold: Share of the signature in which near duplicates agree; None
        looks for exact ones only.

    Returns:
      DECISION[(documents)].
    """
    decided = np.zeros(len(records), DECISION)
    similarity = decided["similarity"]
    earlier = decided["kept"]
    earlier[:] = -1
    digests = np.ascontiguousarray(records["digest"])
    order = np.lexsort((digests[:, 0], digests[:, 1]))
    later, first, _ = _groups(
        order, (digests[order][1:] == digests[order][:-1]).all(axis=1)
    )
    earlier[later] = first
    similarity[later] = 1.0
    decided["is_exact"] = earlier >= 0
    del digests, order
    if threshold is not None:
        for band in range(NUM_BANDS):
            _compare_band(records, band, threshold, earlier, similarity)
    # From the nearest copy to the first, which is kept.
    while True:
        followed = np.where(earlier >= 0, earlier[earlier], -1)
        further = followed >= 0
        if not further.any():
            break
        earlier[further] = followed[further]
        decided["is_exact"][further] = False  # The copy of a near duplicate.
    return decided


def _groups(order: np.ndarray, equals_last: np.ndarray) -> tuple:
    """Members of groups of equals, with the first and the last before them."""
    positions = np.arange(len(order))
    starts = positions.copy()
    starts[1:][equals_last] = 0
    np.maximum.accumulate(starts, out=starts)
    later = np.flatnonzero(starts < positions)
    return order[later], order[starts[later]], order[later - 1]


def _compare_band(records, band, threshold, earlier, similarity) -> None:
    start = band * ROWS_PER_BAND
    numbers = np.flatnonzero(earlier < 0)
    keys = np.zeros(len(numbers), np.uint64)
    for row in range(start, start + ROWS_PER_BAND):
        keys *= _MULTIPLIER
        keys += records["signature"][:, row][numbers]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    later, first, last = _groups(numbers[order], keys[1:] == keys[:-1])
    del keys, order
    for candidates in (first, last):
        for begin in range(0, len(later), _PAIRS):
            copies = later[begin : begin + _PAIRS]
            originals = candidates[begin : begin + _PAIRS]
            undecided = earlier[copies] < 0
            copies, originals = copies[undecided], originals[undecided]
            agreement = (
                records["signature"][copies] == records["signature"][originals]
            ).mean(axis=1, dtype=np.float32)
            near = agreement >= threshold
            earlier[copies[near]] = originals[near]
            similarity[copies[near]] = agreement[near]


def listing(
    records: np.ndarray, decided: np.ndarray, names: Sequence[str]
) -> Iterator[str]:
    """A line of JSON on each document that is dropped.

    Args:
      records: RECORD[(documents)].
      decided: DECISION[(documents)], as `decide` makes it.
      names: Of the files of the corpus.
    """
    files = np.array(records["file"], np.int64)
    first_of_file = np.searchsorted(files, np.arange(len(names)))
    for i in np.flatnonzero(decided["kept"] >= 0):
        is_exact, similarity, kept = decided[i]
        entry = {
            "file": names[files[i]],
            # Documents of a file are numbered from 1 for people.
            "document": int(i - first_of_file[files[i]]) + 1,
            "reason": "exact" if is_exact else "near",
            "similarity": round(float(similarity), 3),
            "kept_file": names[files[kept]],
            "kept_document": int(kept - first_of_file[files[kept]]) + 1,
        }
        yield json.dumps(entry, ensure_ascii=False) + "\n"
