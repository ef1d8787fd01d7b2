"""gin files -> one configuration object, with every mistake named.

gin itself refuses unknown objects and parameters, but says nothing of a
mistyped macro, a mistyped scope or a binding that nothing reads; here these are
refused too, with a suggestion.
"""

import contextlib
import importlib.util  # noqa: F401  (gin uses it without importing it)
import inspect
import os
import pathlib
import re
import sys
import textwrap
import tokenize
from collections.abc import Callable, Sequence

import gin

from electra_tf import configs, errors, packaged

# What gin raises on a mistake.
_OF_GIN = (
    *(ValueError, TypeError, SyntaxError, ImportError, OSError),
    *(RuntimeError, tokenize.TokenError),
)
_BINDING = re.compile(r"^([\w./-]+)\s*=", re.MULTILINE)


def load(
    configurable: Callable,
    gin_files: Sequence[str],
    gin_params: Sequence[str] = (),
):
    """Builds a configuration from gin files and single bindings.

    Args:
      configurable: What to build, such as `configs.PretrainingConfig`. Its
        `GIN_DEFAULTS`, where it has them, are bindings that stand unless a file
        or a binding says otherwise.
      gin_files: Paths, later ones overriding earlier ones. A file includes
        others by their path relative to itself or to the working directory.
        Such as "gin/small.gin" is the package's own where the working directory
        has none.
      gin_params: Bindings such as "RunConfig.seed=1", overriding the files.

    Returns:
      What `configurable` returns.

    Raises:
      ValueError: On a mistake in a file or a binding.
    """
    gin.clear_config()
    paths = [_find(path) for path in gin_files]
    param = ""
    try:
        with _includes_of_neighbours():
            for binding in getattr(configurable, "GIN_DEFAULTS", ()):
                gin.parse_config(binding)
            for path in paths:
                gin.parse_config_file(path)
            for param in gin_params:
                gin.parse_config(param)
        config = configurable()
    except errors.ConfigError as error:
        raise errors.ConfigError(errors.first_line(error)) from None
    except _OF_GIN as error:
        raise errors.ConfigError(_explain(error, param, configurable)) from None
    _refuse_unused_bindings()
    return config


def _find(path: str) -> str:
    """Where a gin file is that is called so."""
    path = os.path.expanduser(path)
    if os.path.isfile(path):
        return os.path.abspath(path)
    hint = ""
    if not os.path.isabs(path):
        own = packaged.root() / path
        if own.suffix == ".gin" and own.is_file():
            return str(own)
        hint = errors.did_you_mean(path, packaged.gin_files())
    raise errors.ConfigError(
        f"Expected a gin file at {path}, found none" + (hint and f".{hint}")
    )


@contextlib.contextmanager
def _includes_of_neighbours():
    """Lets every file include its neighbours, for the time of one load.

    gin looks for an included file in a list of folders, which it can only add
    to, and does not say who includes it. So whatever opens a file puts its
    folder first until all of it is read. The package's own files come last.
    """
    folders = gin.config._LOCATION_PREFIXES
    readers = gin.config._FILE_READERS
    before = list(readers), list(folders)

    @contextlib.contextmanager
    def open_in_its_folder(path):
        outer = list(folders)
        folders.insert(0, os.path.dirname(os.path.abspath(path)))
        try:
            with open(path, encoding="utf-8-sig") as file:
                yield file
        except UnicodeDecodeError as error:
            raise errors.ConfigError(
                f"Expected a gin file in UTF-8. Received: {path}, with a byte "
                f"at {error.start} that is none"
            ) from None
        finally:
            folders[:] = outer

    readers[:] = [(open_in_its_folder, os.path.isfile)]
    folders.append(str(packaged.root()))
    try:
        yield
    finally:
        readers[:], folders[:] = before


def _explain(error: Exception, param: str, configurable: Callable) -> str:
    """One line with a suggestion for what gin raises."""
    text = str(error)
    where = f" (--gin_param={param})" if param else ""
    if place := re.search(r"In file \"(.*?)\",? line (\d+)", text):
        path = place[1].removeprefix(os.getcwd() + os.sep)
        where = f" ({path}, line {place[2]})"
    # Configurable classes -> their parameters.
    known = {
        name: list(inspect.signature(value).parameters)
        for module in (configs, sys.modules[configurable.__module__])
        for name, value in vars(module).items()
        if inspect.isclass(value) and hasattr(value, "__dataclass_fields__")
    }
    if unknown := re.search(
        r"No configurable matching (?:reference )?'@?([\w/]*/)?(\w+)", text
    ):
        return (
            f"Unknown object {unknown[2]} in the gin configuration{where}."
            + errors.did_you_mean(unknown[2], list(known))
        )
    if parameter := re.search(
        r"Configurable '(?:.*\.)?(\w+)' doesn't have a parameter named '(.*?)'",
        text,
    ):
        owner, name = parameter.groups()
        return f"{owner} has no parameter {name}{where}." + errors.did_you_mean(
            name, known.get(owner, [])
        )
    macro = re.search(r"in scope '(.*?)'", text)
    if macro and "'macro'" in text:
        macros = [key for key in _keys(gin.config_str()) if "." not in key]
        return (
            f"The gin configuration uses %{macro[1]}, which it does not "
            "define." + errors.did_you_mean(macro[1], macros)
        )
    if missing := re.search(
        r"No values supplied by Gin or caller for arguments: (\[.*?\])", text
    ):
        owner = re.findall(r"In call to configurable '(\w+)'", text)[0]
        names = re.findall(r"'(\w+)'", missing[1])
        line = "The gin configuration must set "
        line += ", ".join(f"{owner}.{name}" for name in names)
        if "vocab_size" in names:
            with contextlib.suppress(ValueError, TypeError, OSError):
                path = gin.query_parameter("PretrainingDataConfig.vocab_file")
                num = pathlib.Path(path).read_bytes().rstrip().count(b"\n") + 1
                line += f"; --gin_param=EncoderConfig.vocab_size={num} is that "
                line += f"of {path}"
        return line
    if "malformed node" in text:
        return f"Expected a value, with quotes if it is text{where}"
    return textwrap.shorten(f"{errors.first_line(error)}{where}", 400)


def _keys(config_str: str) -> list[str]:
    return _BINDING.findall(config_str)


def _refuse_unused_bindings() -> None:
    """Raises on bindings, macros and scopes that nothing has read."""
    used = set()
    for key in _keys(gin.operative_config_str()):
        # A binding of a scope is made of those of the scopes around it.
        *scopes, name = key.split("/")
        for i in range(len(scopes) + 1):
            used.add("/".join([*scopes[i:], name]))
            used.add("/".join([*scopes[: len(scopes) - i], name]))
    unused = [key for key in _keys(gin.config_str()) if key not in used]
    if unused:
        raise errors.ConfigError(
            f"The gin configuration sets {', '.join(unused)}, which nothing "
            "reads." + errors.did_you_mean(unused[0], sorted(used))
        )
