"""One live line with progress, figures and ETA; imports no TensorFlow."""

import sys
import time

# Seconds between two lines where the output is no terminal.
_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Progress of a long job on stderr.

    On a terminal one line is redrawn; elsewhere a line is written now and then.

    Args:
      description: Opens the line.
      total: Units in the whole job.
      unit: Name of what is counted.
      is_shown: False writes nothing: another process does.
    """

    def __init__(
        self, description: str, total: int, unit: str, is_shown: bool = True
    ):
        self.description = description
        self.total = total
        self.unit = unit
        self.is_shown = is_shown
        self._is_terminal = sys.stderr.isatty()
        self._written_at = float("-inf")
        self._line = ""
        self.start(0)

    def start(self, done: int) -> None:
        """Starts the clock; `done` units were done before."""
        self._first = self._done = done
        self._started_at = time.monotonic()

    def update(self, done: int, metrics: dict[str, float]) -> None:
        """Shows how far the job is.

        Args:
          done: Units done.
          metrics: Figures to show.
        """
        if not self.is_shown:
            return
        self._done = done
        now = time.monotonic()
        self._line = " | ".join(
            part
            for part in (
                f"{self.description} {self.unit} {done}/{self.total}",
                format_metrics(metrics),
                f"ETA {self._eta(now)}",
            )
            if part
        )
        if self._is_terminal:
            print(f"\r\x1b[K{self._line}", end="", file=sys.stderr, flush=True)
        elif now - self._written_at >= _SECONDS_BETWEEN_LINES:
            print(self._line, file=sys.stderr, flush=True)
        else:
            return
        self._written_at = now
        self._shown = self._line

    _shown = ""

    def note(self, text: str) -> None:
        """Writes a line that stays."""
        if not self.is_shown:
            return
        start = "\r\x1b[K" if self._is_terminal else ""
        print(start + text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leaves the last state on the screen."""
        if self._is_terminal and self._line:
            print(file=sys.stderr, flush=True)
        elif self._line != self._shown:
            print(self._line, file=sys.stderr, flush=True)

    def _eta(self, now: float) -> str:
        if self._done <= self._first:
            return "?"
        rate = (now - self._started_at) / (self._done - self._first)
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
