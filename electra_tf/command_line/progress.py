"""How far a long job is: one live line with figures and ETA, on stderr."""

import os
import sys
import time

from electra_tf.command_line.arguments import CLEAR

# Seconds between two lines where the output is no terminal.
_SECONDS_BETWEEN_LINES = 10.0
# Between two states of the line on a terminal; more are a flicker.
_SECONDS_BETWEEN_DRAWINGS = 0.1


class LiveLine:
    """A line on stderr: redrawn on a terminal, elsewhere now and then.

    Args:
      seconds_between_lines: Where the output is no terminal.
    """

    def __init__(self, seconds_between_lines: float = _SECONDS_BETWEEN_LINES):
        self._is_terminal = sys.stderr.isatty()
        self._pause = (
            _SECONDS_BETWEEN_DRAWINGS
            if self._is_terminal
            else seconds_between_lines
        )
        self._written_at = float("-inf")
        self._text = self._written = ""

    def show(self, text: str) -> None:
        """Shows the state of things, unless one was shown just before."""
        self._text = text
        now = time.monotonic()
        if now - self._written_at >= self._pause:
            self._written_at = now
            self._draw()

    def note(self, text: str) -> None:
        """Writes a line that stays."""
        self._write((CLEAR if self._is_terminal else "") + text + "\n")
        if self._is_terminal:
            self._written = ""
            self._written_at = float("-inf")

    def close(self) -> None:
        """Leaves the last state on the screen."""
        self._draw()
        if self._is_terminal and self._text:
            self._write("\n")

    def _draw(self) -> None:
        if self._text == self._written:
            return
        if self._is_terminal:
            self._write(f"{CLEAR}{_cut_to_terminal(self._text)}")
        else:
            self._write(self._text + "\n")
        self._written = self._text

    def _write(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)


def _cut_to_terminal(text: str) -> str:
    """What fits into one line, where it is known how long that is."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return text
    return text[: columns - 1] if columns else text


class Progress:
    """Progress of a long job, as a `LiveLine`.

    Args:
      description: Opens the line.
      total: Units in the whole job.
      unit: Name of what is counted; empty shows the share of the total.
      is_shown: False writes nothing: another process does.
    """

    def __init__(
        self,
        description: str,
        total: int,
        unit: str = "",
        is_shown: bool = True,
    ):
        self.description = description
        self.total = total
        self.unit = unit
        self.is_shown = is_shown
        self._line = LiveLine()
        self.start(0)

    def start(self, done: int) -> None:
        """Starts the clock; `done` units were done before."""
        self._first = self._done = done
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
        if not self.is_shown:
            return
        self._done = done
        if self.unit:
            share = f"{self.unit} {done}/{self.total}"
        else:
            share = f"{done / max(self.total, 1):.0%}"
        parts = (f"{self.description} {share}", figures, f"ETA {self._eta()}")
        self._line.show(" | ".join(part for part in parts if part))

    def note(self, text: str) -> None:
        """Writes a line that stays."""
        if self.is_shown:
            self._line.note(text)

    def close(self) -> None:
        """Leaves the last state on the screen."""
        self._line.close()

    def _eta(self) -> str:
        if self._done >= self.total:
            return format_seconds(0.0)
        if self._done <= self._first:
            return "?"
        rate = self.seconds / (self._done - self._first)
        return format_seconds(rate * (self.total - self._done))


def format_seconds(seconds: float) -> str:
    """3725 -> '1:02:05'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def format_metrics(metrics: dict[str, float]) -> str:
    """{"loss": 1.23456} -> 'loss 1.235'."""
    return "  ".join(
        f"{name} {value:.4g}" if abs(value) < 1e4 else f"{name} {value:.0f}"
        for name, value in metrics.items()
    )
