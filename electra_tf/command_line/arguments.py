"""What the command-line tools share; imports no TensorFlow."""

import argparse
import atexit
import contextlib
import gc
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import electra_tf
from electra_tf import errors

N = TypeVar("N", int, float)

# Exit code of a run that was told to stop, saved and left (EX_TEMPFAIL).
EXIT_STOPPED = 75
# Of a command line that is none.
EXIT_USAGE = 2
# Packages that some commands need -> the extra that installs them.
_EXTRAS = {"waitress": "serving", "apache_beam": "beam"}


class ArgumentParser(argparse.ArgumentParser):
    """A parser that takes `--max_seq_length` for `--max-seq-length`.

    Its errors are one line, without the usage text. Flags may not be
    abbreviated, so a mistyped one is not taken for another.
    """

    def __init__(self, prog: str, description: str = "", **kwargs):
        kwargs |= {"prog": prog, "description": description}
        kwargs["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, **kwargs)

    def parse_known_args(self, args=None, namespace=None):
        args = list(sys.argv[1:] if args is None else args)
        # What is behind "--" is no flag, whatever it looks like.
        end = args.index("--") if "--" in args else len(args)
        for place, arg in enumerate(args[:end]):
            if arg.startswith("--"):
                flag, equals, value = arg.partition("=")
                value = os.path.expanduser(value)  # No shell does it here.
                args[place] = flag.replace("_", "-") + equals + value
        return super().parse_known_args(args, namespace)

    def parse_args(self, args=None, namespace=None):
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            hint = errors.did_you_mean(name, self._option_string_actions)
            line = f"unrecognized arguments: {' '.join(unknown)}"
            self.error(f"{line}.{hint}" if hint else line)
        return parsed

    def exit(self, status=0, message=None) -> NoReturn:
        if message:
            print(end=message, file=sys.stderr)
        sys.exit(written(self.prog, status))

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message} (see --help)\n")

    def add_values(self, kind: type | tuple[str, ...], /, **flags: str) -> None:
        """Adds flags that are None unless they are given.

        Args:
          kind: str, int, float, choices, or bool: `--flag`, `--flag=False` or
            `--no-flag`.
          **flags: Name -> help.
        """
        settings: dict[str, Any] = {"type": kind}
        if kind is bool:
            settings = {"type": boolean, "nargs": "?", "const": True}
            settings["metavar"] = "true|false"
        elif isinstance(kind, tuple):
            settings = {"choices": kind}
        for name, text in flags.items():
            flag = f"--{name.replace('_', '-')}"
            self.add_argument(flag, help=text, **settings)
            if kind is bool:
                self.add_argument(
                    *(f"--no-{flag[2:]}", f"--no{flag[2:]}"),
                    dest=name,
                    action="store_const",
                    const=False,
                    help=argparse.SUPPRESS,
                )


def number(
    kind: Callable[[str], N], fits: Callable[[N], bool], expected: str
) -> Callable[[str], N]:
    """An argument type: the `int` or `float` that fit, described for people."""

    def parse(text: str) -> N:
        with contextlib.suppress(ValueError):
            if fits(value := kind(text)):
                return value
        raise argparse.ArgumentTypeError(
            f"expected {expected}, received {text!r}"
        )

    return parse


positive_int = number(int, lambda n: n >= 1, "a whole number of at least 1")


def names(text: str) -> tuple[str, ...]:
    """An argument type: what is between commas, each once."""
    parts = (part.strip() for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


# Clears a line on a terminal: that of `progress`, which another process of this
# command may have open.
CLEAR = "\r\x1b[K"


def boolean(text: str) -> bool:
    """Reads "true" or "false", in any case."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(
            f"expected true or false, received {text!r}"
        )
    return text.lower() == "true"


def add_vocabulary(parser: ArgumentParser) -> None:
    """The flags for what a checkpoint may not say of its vocabulary."""
    line = "the vocabulary, one token a line, where the checkpoint has none"
    parser.add_values(str, vocab_file=line)
    line = "whether text is lower-cased, where the checkpoint does not say"
    parser.add_values(bool, do_lower_case=line)


def add_gin(parser: ArgumentParser, required: bool = False) -> None:
    """The flags of a configuration."""
    line = "gin file; given several times, later ones override earlier ones"
    given: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--gin-file", required=required, help=line, **given)
    line = "gin binding that overrides the files, such as --gin_param="
    line += "'RunConfig.num_train_steps=1000'"
    parser.add_argument("--gin-param", help=line, **given)


def say(prog: str, message: str) -> None:
    """Tells the user what a program does, on stderr."""
    clear = CLEAR if sys.stderr.isatty() else ""
    print(f"{clear}{prog}: {message}", file=sys.stderr)


def run(
    command: Callable[[argparse.Namespace], int | None],
    parser: ArgumentParser,
    argv: Sequence[str] | None = None,
) -> int:
    """Parses the flags and runs a command: see `ended`.

    Args:
      command: Does the work, and may return an exit code.
      parser: The flags.
      argv: The arguments; those of the process by default.
    """
    args = parser.parse_args(argv)
    # TensorFlow's notes on the machine would bury the one line that matters,
    # and without a GPU it prints an error about CUDA, which is none.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return ended(parser.prog, lambda: command(args))


def ended(
    prog: str,
    work: Callable[[], int | None],
    memory_hint: str = "ask for fewer examples at once",
    in_flags: Callable[[str], str] = str,
) -> int:
    """Does the work of a command, whose mistakes end in one line.

    Each line of `errors.warn` is shown once.

    Args:
      prog: The command.
      work: May return an exit code; raises ValueError on what a user can mend.
      memory_hint: What to do where memory runs out.
      in_flags: Puts the command's flags in place of the fields that they set,
        in warnings and errors.

    Returns:
      The exit code: that of the work, or 0; 1 after an error, 130 after Ctrl-C,
      `EXIT_STOPPED` after `errors.Stopped`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # UTF-8 whatever the locale says. Names of files that are not UTF-8 keep
        # their way of being written.
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
    os.environ["KERAS_BACKEND"] = "tensorflow"  # Whatever its keras.json says.
    electra_tf.registration.is_command = True  # type: ignore
    # Python's end looks at no object of TensorFlow then, which saves a second.
    atexit.register(gc.freeze)
    show = warnings.showwarning

    def show_line(message, category, *args, **kwargs) -> None:
        if issubclass(category, errors.Notice):
            say(prog, f"note: {in_flags(str(message))}")
        else:
            show(message, category, *args, **kwargs)

    warnings.simplefilter("once", errors.Notice)
    warnings.showwarning = show_line
    code = 1
    try:
        code = work() or 0
    except errors.Stopped as stopped:
        print(stopped, file=sys.stderr)
        code = EXIT_STOPPED
    except BrokenPipeError:
        pass  # As `written` has it.
    except (ValueError, OSError, errors.TrainingError) as error:
        say(prog, "error: " + in_flags(" ".join(str(error).split())))
    except Exception as error:
        name = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and name in _EXTRAS:
            extra = f"pip install 'electra_tf[{_EXTRAS[name]}]'"
            say(prog, f"error: {name} is not installed: {extra}")
            return 1
        # TensorFlow's, which is not imported here.
        is_of_device = type(error).__name__ == "ResourceExhaustedError"
        if not (is_of_device or isinstance(error, MemoryError)):
            raise
        line = errors.first_line(error) or "a MemoryError"
        say(
            prog,
            "error: Expected work that there is the memory for: "
            f"{in_flags(memory_hint)}. Received: {' '.join(line.split())}",
        )
    except KeyboardInterrupt:
        say(prog, "interrupted")
        code = 130
    return written(prog, code)


def written(prog: str, code: int = 0, text: str = "") -> int:
    """Writes the last of what a command says, with what was kept back before.

    Args:
      prog: The command.
      code: Its exit code if that can be written.
      text: The last.
    """
    try:
        print(end=text, flush=True)
    except OSError as error:
        # It is given up: Python would complain of it once more at its end.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Who reads the output, such as `head`, has seen enough.
        if not (code or isinstance(error, BrokenPipeError)):
            say(prog, f"error: Cannot write the output: {error.strerror}")
        return code or 1
    return code
