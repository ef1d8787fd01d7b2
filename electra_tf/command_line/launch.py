"""What run_pretraining and run_finetuning share: flags -> gin -> one call."""

import dataclasses
import functools
import inspect
import os
import re
import typing
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence

import gin
from absl import logging

from electra_tf import configs, errors, model_directory
from electra_tf.command_line import (
    arguments,
    fastest,
    gin_files,
    host_memory,
    original_hparams,
)

_OF_MEMORY = (
    "set a smaller RunConfig.micro_batch_size, which changes no result, or "
    "take fewer examples"
)
# Flags that take the place of the hparam of their name, since others follow
# from it: epochs and folder from the tasks, the vocabulary from the model.
_FLAGS_OF_HPARAMS = ("task_names", "init_checkpoint")
# Flag -> the parameter that it overrides.
_OF_RUN = ("model_dir", "distribution_strategy", "num_gpus", "tpu", "seed")
_BINDINGS = {name: f"RunConfig.{name}" for name in _OF_RUN}

# gin files and, overriding them, single bindings.
Base = tuple[Sequence[str], Sequence[str]]


def make_parser(prog: str, description: str) -> arguments.ArgumentParser:
    """The flags that all runs have."""
    parser = arguments.ArgumentParser(prog, description)
    arguments.add_gin(parser)
    line = "In place of --gin_file: the --hparams of the original's command of "
    line += "this name, as JSON or a file that holds it, with its --data_dir "
    line += "and --model_name; {} by default. --gin_param and the other flags "
    parser.add_values(str, hparams=f"{line}override them.")
    line = "With --hparams: the model's folder in models/."
    parser.add_values(str, model_name=line)
    add_fields(parser, _BINDINGS, configs.RunConfig)
    return parser


def described(cls: type) -> dict[str, str]:
    """Field of a dataclass -> what its docstring says of it, in a line."""
    section = (inspect.getdoc(cls) or "").partition("Attributes:\n")[2]
    entries = re.split(r"^ {2}(\w+): ", section, flags=re.M)
    texts = (" ".join(text.split()) for text in entries[2::2])
    return dict(zip(entries[1::2], texts, strict=True))


def add_fields(
    parser: arguments.ArgumentParser,
    bindings: Mapping[str, str],
    *classes: type,
    **choices: tuple[str, ...],
) -> None:
    """Adds flags of fields, which say and take what the fields do.

    Args:
      parser: Of the command.
      bindings: Flag -> parameter, such as "RunConfig.seed".
      *classes: Dataclasses, those of the parameters.
      **choices: Field -> its values, where it has only these.
    """
    flags = {p.split(".")[1]: f"--{flag}" for flag, p in bindings.items()}
    for cls in classes:
        texts, hints = described(cls), typing.get_type_hints(cls)
        for flag, parameter in bindings.items():
            owner, name = parameter.split(".")
            if owner != cls.__name__:
                continue
            kinds = typing.get_args(hints[name]) or (hints[name],)
            kind = next((k for k in (bool, int, float) if k in kinds), str)
            text = re.sub(
                r"`(?:\w+\.)*(\w+)`",
                lambda match: flags.get(match[1], match[0].strip("`")),
                re.sub(r"\bNone for\b", "by default", texts[name]).replace(
                    "%", "%%"
                ),
            )
            parser.add_values(choices.get(name) or kind, **{flag: text})


@dataclasses.dataclass
class Command:
    """A command that runs what gin configures.

    Attributes:
      parser: Of `make_parser`, and the command's own flags.
      configurable: The configuration to build from gin.
      run: Takes the configuration, what to call before the first step, and
        the flags.
      translate: What --hparams means.
      bindings: Flag of the command -> the parameter that it overrides, such as
        "RunConfig.seed".
      needed: Flags that do without a gin file; none where there must be one.
      stand_in: Asked, where there is no gin file, for what stands in its place.
    """

    parser: arguments.ArgumentParser
    configurable: type
    run: Callable[[typing.Any, Callable[[], None], Namespace], None]
    translate: original_hparams.Translate
    bindings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    needed: Sequence[str] = ()
    stand_in: Callable[[Namespace], Base | None] = lambda args: None

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Parses the flags and runs; returns the exit code of `ended`."""
        args = self.parser.parse_args(argv)

        def work():
            logging.set_verbosity(logging.WARNING)
            self.run(*self._configure(args), args)

        def in_flags(line: str) -> str:
            # A user knows the flag, not the field that it sets.
            for flag, parameter in (_BINDINGS | dict(self.bindings)).items():
                line = re.sub(rf"\b{parameter}\b", f"--{flag}", line)
            fields = re.findall(r"\b\w+Config\.\w+", line)
            if fields and not re.search(r"gin\b|gin_", line):
                line += f" (flag: --gin_param={fields[-1]}=VALUE)"
            return line

        return arguments.ended(self.parser.prog, work, _OF_MEMORY, in_flags)

    def _base(self, args: Namespace) -> Base:
        """The gin files, and bindings that stand in place of one."""
        given = {k: v for k, v in vars(args).items() if v is not None}
        # The original's flags that are nobody else's.
        originals = {"hparams", "data_dir", "model_name"} - set(self.bindings)
        original = next((name for name in given if name in originals), None)
        if args.gin_file and original:
            raise errors.ConfigError(
                f"Expected either --gin_file or --{original}. Received: both"
            )
        if args.gin_file:
            return args.gin_file, ()
        if not original:
            if base := self.stand_in(args):
                return base
            missing = [name for name in self.needed if not given.get(name)]
            if self.needed and not missing:
                return (), ()
            line = "Expected --gin_file, such as --gin_file=gin/small.gin"
            if self.needed:
                line = f"Expected --gin_file, or --{', --'.join(self.needed)}. "
                missing = ["gin_file", *missing]
                line += f"Received: no --{' and no --'.join(missing)}"
            raise errors.ConfigError(line)
        for name in ("data_dir", "model_name"):
            if not given.get(name):
                raise errors.ConfigError(
                    f"Expected --data_dir and --model_name with --{original}, "
                    f"as in the original. Received: no --{name}"
                )
        hparams = original_hparams.read(args.hparams or "{}")
        for name in _FLAGS_OF_HPARAMS:
            if name in self.bindings and name in given:
                hparams[name] = given[name]
        return (), self.translate(hparams, args.data_dir, args.model_name)

    def _configure(self, args: Namespace):
        """The configuration, and what to call before step 1."""
        given = {k: v for k, v in vars(args).items() if v not in (None, [])}
        bindings = _BINDINGS | dict(self.bindings)
        files, params = self._base(args)
        params = [*params, *args.gin_param] + [
            f"{parameter} = {given[name]!r}"
            for name, parameter in bindings.items()
            if name in given
        ]
        config = gin_files.load(self.configurable, files, params)
        model_directory.refuse_other_run(config)
        run = config.run
        is_tpu = run.distribution_strategy == "tpu"
        # TensorFlow is not imported yet. Without a GPU it prints an error about
        # CUDA, which is none.
        level = "2" if run.num_gpus or is_tpu else "3"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", level)
        step: dict[str, typing.Any] = {}
        if isinstance(config, configs.PretrainingConfig):
            step = fastest.pretraining_step(config)
        before = None  # The record of the run that this one goes on with.
        if model_directory.has_learned(run.model_dir):
            before = model_directory.read_config(run.model_dir).get("run")
        run, device = fastest.settle_devices(run)
        run, chosen = fastest.settle(run, before=before, **step)
        print(
            "\n".join(filter(None, [f"{device}, {run.dtype_policy}", chosen]))
        )
        if run.num_intra_op_threads:
            threads = str(run.num_intra_op_threads)
            os.environ["TF_NUM_INTRAOP_THREADS"] = threads
        if not (run.num_gpus or is_tpu):
            host_memory.keep_freed()
        named = ("gin_file", "gin_param", "hparams", "model_name", "data_dir")
        flags = [
            f"--{name}={given[name]}"
            for name in dict.fromkeys((*named, *bindings))
            if name in given
        ]
        config = dataclasses.replace(config, run=run)
        return config, functools.partial(
            model_directory.begin, config, gin.operative_config_str(), flags
        )
