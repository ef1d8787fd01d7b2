"""Compares what settings lead to with what the original derives from them.

Sizes of both networks, steps, rates, warm-ups, batches and lengths, from the
--hparams of a run, through gin, to the configuration that the run is made of.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Iterator

from electra_tf import configs
from electra_tf.command_line import (
    gin_files,
    original_hparams,
    original_settings,
)
from electra_tf.finetuning import configs as finetuning_configs
from tests.parity import comparison
from tests.parity.cases import Case
from tests.parity.check import Check

FILE = "derived_sizes.json"
# Settings whose values are elsewhere here than original_hparams says.
_SERVED_BY = {"predict_batch_size": "FinetuningDataConfig.eval_batch_size"}


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """A case for each run that is recorded."""
    path = golden_dir / FILE
    if not path.exists():
        return
    for kind, entries in comparison.read_json(path).items():
        compare = {"pretraining": _pretraining, "finetuning": _finetuning}[kind]
        for index, entry in enumerate(entries):
            yield Case(
                f"{kind}/{index} {entry['hparams']}",
                functools.partial(compare, f"{kind}/{index}", entry),
            )


def _load(configurable, bindings: list[str]):
    return gin_files.load(configurable, [], bindings)


def _pretraining(entry: str, golden: dict) -> Iterable[Check]:
    config = _load(
        configs.PretrainingConfig,
        original_hparams.pretraining(golden["hparams"], "data", "model"),
    )
    model = config.model
    ours = _values(config, original_settings.PRETRAINING)
    ours["max_predictions_per_seq"] = model.max_predictions_per_seq
    if golden["config"]["embedding_size"] is None:  # The hidden size.
        golden["config"]["embedding_size"] = model.encoder.hidden_size
    yield from _compare(f"{entry}/config", golden["config"], ours)
    # Also of generators that neither code can build, as heads of 64 do not
    # divide their width.
    discriminator = dataclasses.asdict(model.encoder)
    for name, network in (
        ("discriminator", discriminator),
        ("generator", discriminator | model.generator_sizes),
    ):
        yield from _compare(f"{entry}/{name}", golden[name], network)
    yield _read_of_hparams(entry, golden)


def _finetuning(entry: str, golden: dict) -> Iterable[Check]:
    config = _load(
        finetuning_configs.FinetuningConfig,
        original_hparams.finetuning(golden["hparams"], "data", "model"),
    )
    ours = _values(config, original_settings.FINETUNING)
    yield from _compare(f"{entry}/config", golden["config"], ours)
    yield _read_of_hparams(entry, golden)


def _read_of_hparams(entry: str, golden: dict) -> Check:
    """They were read, or nothing of the case could have been compared."""
    return Check(
        FILE,
        f"{entry.split('/')[0]} hparams: {entry}",
        0.0,
        0.0,
        frozenset(
            f"{FILE}:{entry}/hparams/{name}" for name in golden["hparams"]
        ),
    )


def _values(config, known: dict[str, original_settings.Hparam]) -> dict:
    """Setting of the original -> its value in a configuration."""
    owners: dict[str, object] = {}

    def find(part):
        owners[type(part).__name__] = part
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if dataclasses.is_dataclass(value):
                find(value)

    find(config)
    values = {}
    for name, hparam in known.items():
        parameter = _SERVED_BY.get(name, hparam.parameter)
        owner, _, field = parameter.partition(".")
        if field:
            values[name] = getattr(owners[owner], field)
    return values


def _compare(entry: str, golden: dict, ours: dict) -> Iterator[Check]:
    """A check for each recorded value; what is not among ours differs."""
    for name, value in golden.items():
        different = name not in ours or ours[name] != value
        yield Check(
            FILE,
            f"{entry.split('/')[0]} {entry.split('/')[-1]}: {entry}/{name}",
            float(different),
            0.0,
            frozenset((f"{FILE}:{entry}/{name}",)),
        )
