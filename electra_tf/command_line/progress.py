"""One live line with progress, figures and ETA; imports no TensorFlow."""

import sys
import time

# Seconds between two lines where the output is no terminal.
_SECONDS_BETWEEN_LINES = 10.0


class LiveLine:
    """A line on stderr: redrawn on a terminal, elsewhere now and then.

    Args:
      seconds_between_lines: Where the output is no terminal.
    """

    def __init__(self, seconds_between_lines: float = _SECONDS_BETWEEN_LINES):
        self._seconds_between_lines = seconds_between_lines
        self._is_terminal = sys.stderr.isatty()
        self._written_at = float("-inf")
        self._text = self._written = ""

    def show(self, text: str) -> None:
        """Shows the state of things."""
        self._text = text
        if self._is_terminal:
            if text != self._written:
                self._write(f"\r\x1b[K{text}")
                self._written = text
            return
        now = time.monotonic()
        if now - self._written_at >= self._seconds_between_lines:
            self._write(text + "\n")
            self._written_at, self._written = now, text

    def note(self, text: str) -> None:
        """Writes a line that stays."""
        self._write(("\r\x1b[K" if self._is_terminal else "") + text + "\n")
        if self._is_terminal:
            self._written = ""

    def close(self) -> None:
        """Leaves the last state on the screen."""
        if self._is_terminal:
            if self._text:
                self._write("\n")
        elif self._text != self._written:
            self._write(self._text + "\n")

    def _write(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)


class Progress:
    """Progress of a long job on stderr, as a `LiveLine`.

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
        self._line = LiveLine()
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
        self._line.show(
            " | ".join(
                part
                for part in (
                    f"{self.description} {self.unit} {done}/{self.total}",
                    format_metrics(metrics),
                    f"ETA {self._eta(time.monotonic())}",
                )
                if part
            )
        )

    def note(self, text: str) -> None:
        """Writes a line that stays."""
        if self.is_shown:
            self._line.note(text)

    def close(self) -> None:
        """Leaves the last state on the screen."""
        self._line.close()

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
