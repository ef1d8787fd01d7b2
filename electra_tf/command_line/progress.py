"""How far a long job is: one live line with figures and ETA, on stderr."""

import contextlib
import dataclasses
import datetime
import os
import sys
import time

from electra_tf.command_line.arguments import CLEAR

# Seconds between two lines where the output is no terminal, and between two
# states of the line on a terminal; more are a flicker.
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_DRAWINGS = 0.1


@dataclasses.dataclass(eq=False)
class Progress:
    """A line on stderr: redrawn on a terminal, elsewhere written now and then.

    Args:
      description: Opens the line.
      total: Units in the whole job.
      unit: Name of what is counted; empty shows the share of the total.
      is_shown: False writes nothing: another process does.
    """

    description: str
    total: int
    unit: str = ""
    is_shown: bool = True

    def __post_init__(self):
        self._is_terminal = sys.stderr.isatty()
        self._written_at = float("-inf")
        self._text = self._written = ""
        self.start(0)

    def start(self, done: int) -> None:
        """Starts the clock; `done` units were done before."""
        self._first = done
        self._started_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start, never 0."""
        return max(time.monotonic() - self._started_at, 1e-9)

    def update(self, done: int, figures: str = "") -> None:
        """Shows how far the job is.

        Args:
          done: Units done.
          figures: What else to show; see `format_metrics`.
        """
        share = f"{done / max(self.total, 1):.0%}"
        if self.unit:
            share = f"{self.unit} {done}/{self.total}"
        left = "?"
        if done >= self.total:
            left = str(datetime.timedelta(0))
        elif done > self._first:
            rate = self.seconds / (done - self._first)
            seconds = round(rate * (self.total - done))
            left = str(datetime.timedelta(seconds=seconds))
        parts = (f"{self.description} {share}", figures, f"ETA {left}")
        self.show(" | ".join(part for part in parts if part))

    def show(self, text: str) -> None:
        """Shows a state of the line, unless one was shown just before."""
        self._text = text
        pause = _SECONDS_BETWEEN_LINES
        if self._is_terminal:
            pause = _SECONDS_BETWEEN_DRAWINGS
        if time.monotonic() - self._written_at >= pause:
            self._written_at = time.monotonic()
            self._draw()

    def note(self, text: str) -> None:
        """Writes a line that stays."""
        self._write(CLEAR * self._is_terminal + text + "\n")
        if self._is_terminal:
            self._written = ""
            self._written_at = float("-inf")

    def close(self) -> None:
        """Leaves the last state on the screen."""
        self._draw()
        if self._is_terminal and self._text:
            self._write("\n")

    def _draw(self) -> None:
        if self._text != self._written:
            self._written = self._text
            text = self._text + "\n"
            if self._is_terminal:
                # What fits into one line, where it is known how long that is.
                with contextlib.suppress(OSError):
                    size = os.get_terminal_size(sys.stderr.fileno())
                    text = text[: size.columns - 1]
                text = CLEAR + text.removesuffix("\n")
            self._write(text)

    def _write(self, text: str) -> None:
        if self.is_shown:
            print(text, end="", file=sys.stderr, flush=True)


def format_metrics(metrics: dict[str, float]) -> str:
    """{"loss": 1.23456} -> 'loss 1.235'."""
    return "  ".join(
        f"{name} {value:.4g}" if abs(value) < 1e4 else f"{name} {value:.0f}"
        for name, value in metrics.items()
    )
