"""The runs of run_ner.py, and the data that they read; runs nothing.

  <output_dir>/data/<n>/ner/                 labelled sentences
  <output_dir>/<model>/pretraining           run_pretraining
                      /parts/<part>          a part of the weights
                      /choices/<start>       run_finetuning, all settings
                      /<n>/<start>           run_finetuning, all seeds

A start is nothing, all weights, those of half of the steps, or a part.
"""

import dataclasses
import functools
import json
import os
import pathlib
import random
import typing

import experiment_runs
import figure_files
import ner_parts
from experiment_runs import Run

from electra_tf import configs, files, model_directory
from electra_tf.command_line import gin_files as gin_files_lib
from electra_tf.finetuning import configs as finetuning_configs

# Name -> the file of its pre-training.
MODELS = {
    "uncased": "results/english.gin",
    "cased": "results/english_cased.gin",
}
FINETUNING = ("finetune/ner.gin", "results/finetuning.gin")
# What fine-tuning begins with: random weights, those of the end, and those of
# half of the steps, to which all models get.
SCRATCH, PRETRAINED, HALF = "from_scratch", "pretrained", "half"
STARTS = (SCRATCH, PRETRAINED)
RESCALED = ner_parts.RESCALED
# All weights, the rates of lower layers higher.
FASTER = "faster"
FASTER_DECAY = 1.2
# Those for which a checkpoint is written.
ALTERED = (RESCALED, *ner_parts.PARTS)
CHOICES = (*STARTS, *ALTERED, FASTER)

# Labelled sentences: those that settings are chosen on, with the first model;
# all that are compared, by default.
NUM_CHOICE_SENTENCES = 3000
NUM_SENTENCES = (1000, 3000, 14041)
# Where case is compared.
NUM_CASE_SENTENCES = 3000
# What is tried; 5e-4 and 3 epochs are those of docs/results.md.
LEARNING_RATES = (2e-4, 5e-4, 1e-3, 2e-3)
NUM_TRAIN_EPOCHS = (3.0, 10.0)
# Of parts of the weights.
PART_LEARNING_RATES = (5e-4, 1e-3)
# Of these, and of what is compared: as in docs/results.md.
COMPARED_EPOCHS = 3.0

_PRETRAINING_SEED = 42
_SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class FinetuningOptions:
    """What a user chose of fine-tuning.

    Attributes:
      output_dir: Where everything goes.
      data_dir: Folder of train.txt, dev.txt and test.txt.
      seeds: Of what is compared.
      num_sentences: Labelled ones of what is compared.
    """

    output_dir: str
    data_dir: str
    seeds: tuple[int, ...]
    num_sentences: tuple[int, ...] = NUM_SENTENCES

    def data_of(self, num_sentences: int, with_test: bool) -> str:
        """The folder of so many labelled sentences."""
        name = f"{num_sentences}_with_test" if with_test else str(num_sentences)
        return os.path.join(self.output_dir, "data", name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(FinetuningOptions):
    """What a user chose.

    Attributes:
      num_train_steps: Of pre-training.
      models: Names of `MODELS`.
    """

    num_train_steps: int
    models: tuple[str, ...]


class Setting(typing.NamedTuple):
    """A recipe, and its F1 on dev."""

    learning_rate: float
    num_train_epochs: float
    f1: float


def sentences(text: str) -> list[str]:
    """The sentences of a file in CoNLL's layout, without its documents' marks.

    Args:
      text: A word and its tags a line, a blank line after each sentence.

    Returns:
      Each with its lines and the blank line behind them.
    """
    blocks = (block.strip("\n") for block in text.split("\n\n"))
    return [
        f"{block}\n\n"
        for block in blocks
        if block.strip() and not block.startswith("-DOCSTART-")
    ]


def some_of(all_sentences: list[str], number: int) -> list[str]:
    """As many sentences, in their order; fewer are a part of more."""
    if number > len(all_sentences):
        raise ValueError(
            f"Expected at least {number:,} labelled sentences. Received: "
            f"{len(all_sentences):,}."
        )
    order = list(range(len(all_sentences)))
    random.Random(0).shuffle(order)
    return [all_sentences[i] for i in sorted(order[:number])]


def write_data(options: FinetuningOptions) -> None:
    """Writes the labelled sets; without a test part those to choose on.

    Raises:
      ValueError: If a file is missing, damaged, has too few sentences, or has
        changed since.
    """
    texts = {}
    for split in _SPLITS:
        path = pathlib.Path(options.data_dir, f"{split}.txt")
        if split == "dev" and not path.is_file():  # As CoNLL-2003 has it.
            path = path.with_name("valid.txt")
        if not path.is_file():
            raise ValueError(
                "Expected the files of CoNLL-2003, as `make ner` writes them. "
                f"Received: {path}, which does not exist."
            )
        texts[split] = _read_text(path)
    train = sentences(texts["train"])
    wanted = [(NUM_CHOICE_SENTENCES, False)]
    numbers = dict.fromkeys((*options.num_sentences, NUM_CASE_SENTENCES))
    wanted += [(number, True) for number in numbers]
    for number, with_test in wanted:
        folder = pathlib.Path(options.data_of(number, with_test), "ner")
        folder.mkdir(parents=True, exist_ok=True)
        parts = {"train": "".join(some_of(train, number))}
        parts["dev"] = texts["dev"]
        if with_test:
            parts["test"] = texts["test"]
        for split, text in parts.items():
            _write_once(folder / f"{split}.txt", text)


def _write_once(path: pathlib.Path, text: str) -> None:
    """Runs that are there learned from what is there: it stays as it is."""
    if not path.exists():
        files.write_atomically(str(path), text)
    elif _read_text(path) != text:
        raise ValueError(
            f"Expected the sentences of the runs that are there, those of "
            f"{path}. Received: others; choose another --output_dir."
        )


def _read_text(path: pathlib.Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"Cannot read {path}: {error}.") from None


def pretraining_run(model: str, options: Options) -> Run:
    """The pre-training of a model: all of the first one, half of others."""
    paths = (experiment_runs.gin_path(MODELS[model]),)
    steps = options.num_train_steps
    params: tuple[str, ...] = (
        f"RunConfig.num_train_steps={steps}",
        f"RunConfig.eval_steps={max(1, steps // 4)}",
    )
    if model != options.models[0]:
        params += (f"RunConfig.stop_at_step={steps // 2}",)
    config = gin_files_lib.load(configs.PretrainingConfig, paths, params)
    return experiment_runs.make_run(
        f"{model} pre-training",
        (paths, params, config),
        _PRETRAINING_SEED,
        os.path.join(options.output_dir, model, "pretraining"),
        {},
        "pretraining",
        float(config.run.stop_at_step or steps),
    )


def choice_run(start: str, options: Options) -> Run:
    """Several settings of a start, one seed each, of the first model."""
    is_part = start in (*ALTERED, FASTER)
    rates = PART_LEARNING_RATES if is_part else LEARNING_RATES
    epochs = (COMPARED_EPOCHS,) if is_part else NUM_TRAIN_EPOCHS
    return _finetuning_run(
        options.models[0],
        start,
        options,
        os.path.join("choices", start),
        options.data_of(NUM_CHOICE_SENTENCES, False),
        (
            f"FinetuningConfig.learning_rates={rates}",
            f"FinetuningConfig.num_train_epochs_options={epochs}",
            "FinetuningConfig.num_trials=1",
            *(
                [f"OptimizerConfig.layerwise_lr_decay={FASTER_DECAY}"]
                if start == FASTER
                else []
            ),
        ),
        NUM_CHOICE_SENTENCES * len(rates) * sum(epochs),
    )


def score_run(
    model: str, start: str, num_sentences: int, best: Setting, options: Options
) -> Run:
    """A start with its recipe on so many sentences, all seeds."""
    return _finetuning_run(
        model,
        start,
        options,
        os.path.join(str(num_sentences), start),
        options.data_of(num_sentences, True),
        (
            f"OptimizerConfig.learning_rate={best.learning_rate}",
            f"FinetuningDataConfig.num_train_epochs={best.num_train_epochs}",
            f"FinetuningConfig.num_trials={len(options.seeds)}",
        ),
        num_sentences * best.num_train_epochs * len(options.seeds),
    )


def part_dir(part: str, options: Options) -> str:
    """The model directory of a part of the first model's weights."""
    return os.path.join(options.output_dir, options.models[0], "parts", part)


def _finetuning_run(
    model, start, options, name, data_dir, params, weight
) -> Run:
    pretraining = pretraining_run(model, options)
    init_checkpoint = pretraining.model_dir
    if start in ALTERED:
        init_checkpoint = part_dir(start, options)
    elif start == HALF:
        init_checkpoint += (
            f"/{model_directory.CHECKPOINT_NAME}-{options.num_train_steps // 2}"
        )
    run = finetuning_run(
        f"{model} {name}",
        os.path.join(options.output_dir, model, name),
        init_checkpoint,
        (
            *params,
            f"FinetuningConfig.from_scratch={start == SCRATCH}",
            f"FinetuningDataConfig.data_dir={json.dumps(data_dir)}",
        ),
        min(options.seeds),
        weight,
    )
    return dataclasses.replace(run, needs=(pretraining.model_dir,))


def finetuning_run(
    title: str,
    model_dir: str,
    init_checkpoint: str,
    params: tuple[str, ...],
    seed: int,
    weight: float,
) -> Run:
    """One run of run_finetuning on CoNLL-2003.

    Args:
      title: For people.
      model_dir: Of the run.
      init_checkpoint: Its weights, or its sizes alone.
      params: gin bindings.
      seed: Of its first trial.
      weight: In proportion to what it takes.
    """
    paths = tuple(map(experiment_runs.gin_path, FINETUNING))
    return experiment_runs.make_run(
        title,
        (paths, params, _load(paths, params)),
        seed,
        model_dir,
        {"init_checkpoint": init_checkpoint},
        "finetuning",
        float(weight),
    )


@functools.cache
def _load(paths, params) -> finetuning_configs.FinetuningConfig:
    return gin_files_lib.load(
        finetuning_configs.FinetuningConfig, paths, params
    )


def pretraining_runs(options: Options) -> list[Run]:
    """Of all models, the first one's first."""
    return [pretraining_run(model, options) for model in options.models]


def choice_runs(options: Options) -> list[Run]:
    """All settings of all starts, after writing those that are parts."""
    for part in ALTERED:
        ner_parts.write(
            pretraining_run(options.models[0], options).model_dir,
            part,
            part_dir(part, options),
        )
    return [choice_run(start, options) for start in CHOICES]


def chosen_runs(options: Options) -> list[Run]:
    """What is compared, with the recipes that were best on dev."""
    return [*score_runs(options), *case_runs(options)]


def score_runs(options: Options) -> list[Run]:
    """All starts of the first model; none before the choice of recipes."""
    starts = (SCRATCH, PRETRAINED, RESCALED)
    return [
        score_run(options.models[0], start, number, best, options)
        for number in options.num_sentences
        for start in starts
        if (best := recipe(start, options))
    ]


def case_runs(options: Options) -> list[Run]:
    """All models from nothing and from half of the steps, likewise."""
    first = options.models[0]
    return [
        score_run(model, start, NUM_CASE_SENTENCES, best, options)
        for start, like in ((SCRATCH, SCRATCH), (HALF, PRETRAINED))
        for model in options.models
        if (best := recipe(like, options))
        # That is one of `score_runs`.
        and (model, start) != (first, SCRATCH)
    ]


def recipe(start: str, options: Options) -> Setting | None:
    """What was best on dev with `COMPARED_EPOCHS`."""
    return best_of(settings(start, options))


def best_of(tried: list[Setting]) -> Setting | None:
    """What was best on dev with `COMPARED_EPOCHS`; None where nothing was."""
    compared = [s for s in tried if s.num_train_epochs == COMPARED_EPOCHS]
    return max(compared, key=lambda setting: setting.f1, default=None)


def settings(start: str, options: Options) -> list[Setting]:
    """What was tried from a start, in its order; empty where it is not done."""
    return settings_of(choice_run(start, options))


def settings_of(run: Run) -> list[Setting]:
    """What a run has tried, in its order; empty where it is not done."""
    if not run.is_finished():
        return []
    with figure_files.expecting("F1 of each setting on dev", run.model_dir):
        return [
            Setting(
                trial["learning_rate"],
                trial["num_train_epochs"],
                trial["tasks"]["ner"]["dev"]["f1"],
            )
            for trial in run.trials()
        ]
