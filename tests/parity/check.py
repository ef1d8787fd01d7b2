"""What a parity check reports."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Check:
    """One comparison with the golden numbers.

    Attributes:
      case: The golden case, e.g. "examples/direct_seq64".
      compared: What was compared, e.g. "input_ids" or "number of examples".
      error: The largest difference found; for ids and counts, the number of
        entries that differ.
      tolerance: The largest difference that passes.
      consumed: What was read from the golden folder for it: a file
        ("tokenization/a.jsonl"), an array ("examples/a.npz:input_ids") or a
        JSON entry ("examples/variants.json:a/n").
      information_only: Whether a failure is expected on some machines and
        reported without counting.
    """

    case: str
    compared: str
    error: float
    tolerance: float
    consumed: frozenset[str] = frozenset()
    information_only: bool = False

    @classmethod
    def of(cls, case, compared, error, tolerance, entries=(), folder=None):
        """A check that read entries of a folder, which has the case's name."""
        prefix = case if folder is None else folder
        consumed = frozenset(f"{prefix}/{entry}" for entry in entries)
        return cls(case, compared, float(error), float(tolerance), consumed)

    @property
    def passed(self) -> bool:
        """False for a NaN, too."""
        return self.error <= self.tolerance
