"""Writes docs/reference/cli.md and docs/reference/config.md from the code.

    python docs/make_reference.py

The first has the flags of each verb, from its `--help`; the second has the
fields of each configuration, from its docstring. tests/docs_test.py compares.
"""

import concurrent.futures
import dataclasses
import inspect
import itertools
import os
import pathlib
import re
import subprocess
import sys
import typing

from electra_tf import configs
from electra_tf.command_line import launch, verbs
from electra_tf.finetuning import configs as finetuning_configs

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_FOLDER = _ROOT / "docs" / "reference"
_LONG = 12  # Words.
_RUNS = ("pretrain", "adapt", "finetune")
# What a setting's value means: "0 for the CPU".
_VALUE = re.compile(r"(its )?('|\d|False|None|none|True|empty|or ')")
_CONFIGS = {
    "Pre-training": (
        configs.PretrainingConfig,
        configs.EncoderConfig,
        configs.ElectraConfig,
        configs.PretrainingDataConfig,
    ),
    "Both": (configs.OptimizerConfig, configs.RunConfig),
    "Fine-tuning": (
        finetuning_configs.FinetuningConfig,
        finetuning_configs.FinetuningDataConfig,
        configs.QuestionAnsweringConfig,
    ),
}

_CLI = """# Commands

`electra-tf VERB` runs one step. `electra-tf VERB --help` explains it at length.

* Flags take dashes or underscores, and `--flag=value` or `--flag value`.
* A gin file is looked for in the current directory, then in the package.
* `--gin_param=Class.field=value` sets any field of the
  [configuration](config.md). Text needs quotes of its own:
  `--gin_param="RunConfig.model_dir='models/mine'"`.
* Exit codes: 0 for success, 1 for an error, 2 for a wrong flag, 75 for a run
  that was stopped. The same command continues it.

Each line has the first words on a flag, written by
`python docs/make_reference.py`.
"""
_CONFIG = """# Configuration

Set any field in a gin file (`RunConfig.seed = 7`) or on the command line
(`--gin_param=RunConfig.seed=7`). `gin/pretraining.gin` and `gin/finetuning.gin`
explain the common choices; `gin/small.gin`, `base.gin` and `large.gin` have the
paper's sizes. A mistyped name is an error with a suggestion.

Each line has the default of a field and the first words on it; the
[Python API](api.md#configurations) has the rest.
`python docs/make_reference.py` writes this page.
"""


def _clause(text: str, marks: str) -> str:
    """The first sentence, or the first words up to one of the marks."""
    text = re.sub(r"\s+", " ", text).strip()
    end = len(text)
    for match in re.finditer(
        rf"\.(?= [A-Z]|$)|[{marks}](?= )| \((?!s\))", text
    ):
        # Two words say too little.
        if match[0] == "." or len(text[: match.start()].split()) > 2:
            end = match.start()
            break
    if text[:end].count("(") > text[:end].count(")"):
        end = text.index(")", end) + 1
    # Text has no tags, and GitHub takes these for some.
    return text[:end].replace("<", "&lt;")


def _in_short(text: str) -> str:
    """The first sentence; of a long one the first words, and values."""
    first, *rest = _clause(text, marks=":").split("; ")
    if len(" ".join([first, *rest]).split()) <= _LONG:
        return "; ".join([first, *rest])
    if len(first.split()) > _LONG:
        first = _clause(first, marks=",:")
    return "; ".join([first, *filter(_VALUE.match, rest)])


def _help(verb: str) -> str:
    """Help that is not wrapped where it can be helped."""
    command = [sys.executable, "-m", "electra_tf", verb, "--help"]
    places = filter(None, (str(_ROOT), os.environ.get("PYTHONPATH")))
    environment = os.environ | {
        "COLUMNS": "9999",
        "PYTHONPATH": os.pathsep.join(places),
    }
    done = subprocess.run(
        command, env=environment, cwd=_ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def flags(text: str) -> dict[str, str]:
    """Flag, as its help shows it -> what it does."""
    entries: list[list[str]] = []
    for line in text.split("\n"):
        if re.match(r"  -", line):
            flag, _, rest = re.split(r"( {2,}|$)", line.strip(), maxsplit=1)
            entries.append([flag, rest])
        elif entries and re.match(r" {4}", line):
            entries[-1][1] += " " + line.strip()
        elif not line.strip() and entries:
            break
    return {flag: text for flag, text in entries if "--help" not in flag}


def _line(flag: str, what: str) -> str:
    """`--seed SEED` says no more than `--seed`; choices are kept."""
    flag = re.sub(r"( \[?[A-Z_]+\]?)+(?=,|$)", "", flag)
    clause = _clause(what, marks=",;:")
    return f"* `{flag}`: {clause}\n" if clause else f"* `{flag}`\n"


def _own(entries: dict[str, str]) -> str:
    """Flags of a run: the page of the configuration describes its fields."""
    classes = itertools.chain.from_iterable(_CONFIGS.values())
    fields = {f.name for cls in classes for f in dataclasses.fields(cls)}
    lines, names = [], []
    for entry in entries.items():
        line = _line(*entry)
        flag = line.split("`")[1]
        if flag.split()[0].lstrip("-").replace("-", "_") in fields:
            names.append(f"`{flag}`")
        else:
            lines.append(line)
    return "".join(lines) + (
        f"* Fields of the [configuration](config.md): {', '.join(names)}\n"
    )


def cli() -> str:
    """The page of the commands."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        helps = map(flags, pool.map(_help, verbs.VERBS))
        entries = dict(zip(verbs.VERBS, helps, strict=True))
    common = set.intersection(*(set(entries[v].items()) for v in _RUNS))
    parts = [_CLI, f"## Every run\n\n`{'`, `'.join(_RUNS)}` take these:\n"]
    runs = entries[_RUNS[0]].items()
    parts.append(_own({k: v for k, v in runs if (k, v) in common}))
    for verb, some in entries.items():
        door = verbs.VERBS[verb]
        door = door if "/" in door else f"python -m {door}"
        parts.append(f"## {verb}\n\n{verbs.first_line(verb)} (`{door}`)\n")
        if verb in _RUNS:
            own = {k: v for k, v in some.items() if (k, v) not in common}
            parts.append(_own(own))
        else:
            parts.append("".join(_line(*entry) for entry in some.items()))
    return "\n".join(parts)


def _field(field: dataclasses.Field) -> str:
    if field.default is dataclasses.MISSING:
        return f"`{field.name}`, required"
    return f"`{field.name}={field.default!r}`"


def config() -> str:
    """The page of the configuration."""
    parts = [_CONFIG]
    for group, classes in _CONFIGS.items():
        parts.append(f"## {group}\n")
        for cls in classes:
            attributes = launch.described(cls)
            hints = typing.get_type_hints(cls)
            summary = (inspect.getdoc(cls) or "").split("\n")[0]
            parts.append(f"### {cls.__name__}\n\n{summary}\n")
            parts.append(
                "".join(
                    f"* {_field(field)}: {_in_short(attributes[field.name])}\n"
                    for field in dataclasses.fields(cls)
                    if not dataclasses.is_dataclass(hints[field.name])
                )
            )
    return "\n".join(parts)


PAGES = {"cli.md": cli, "config.md": config}


def main() -> None:
    """Writes the pages."""
    for name, page in PAGES.items():
        (_FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
