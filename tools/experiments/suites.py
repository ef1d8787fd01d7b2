"""The suites as data: rows that are compared, tasks, seeds and compute.

A row is a gin file; each below gin/experiments opens with its source, its cost
and the paper's number. In tables rows and tasks have the names that they have
here.
"""

import dataclasses
from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Row:
    """One variant of a comparison.

    Attributes:
      name: Unique in its suite.
      gin_file: Of pre-training, below gin/; '' where `baselines` takes the
        place of a network.
      first_stage: Of two stages, the gin file of the first, from whose result
        the networks start. At a budget each stage has as many steps, and both
        together cost what another row costs.
      bindings: Of all fine-tuning.
      task_bindings: Task -> bindings behind them.
    """

    name: str
    gin_file: str = ""
    first_stage: str = ""
    bindings: tuple[str, ...] = ()
    task_bindings: Mapping[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict, hash=False
    )


@dataclasses.dataclass(frozen=True)
class Task:
    """What a model is fine-tuned on.

    Attributes:
      metric: Its key in results.json, in per cent.
      gin_files: In their order, below gin/.
      bindings: Of all rows.
      small_gin_files: Behind `gin_files` where the suite has another size than
        the rows' own.
      split: That tables show.
    """

    metric: str
    gin_files: tuple[str, ...]
    bindings: tuple[str, ...] = ()
    small_gin_files: tuple[str, ...] = ()
    split: str = "dev"


@dataclasses.dataclass(frozen=True)
class Suite:
    """Rows that are compared with one of them.

    What a command may choose otherwise are `tasks`, `num_seeds`, `budget_flops`
    and `size_gin_file`; what it adds are the last fields, `name` included.

    Attributes:
      source: What is compared, and where that is from.
      reference: Name of the row that the others are compared with.
      rows: In the order of the table.
      tasks: Likewise.
      data: The function of `suite_data` that builds its data.
      build_dir: Where these data, and the runs, are.
      budget_flops: Compute of each row; None for the steps of the gin files.
      num_seeds: Seeds are 1, 2, ...
      is_pretrained_once: Seeds are trials of fine-tuning from one pre-trained
        model; otherwise each seed has a pre-training run of its own.
      size_gin_file: Given after the row's file; '' for the row's own size.
      bindings: Of all fine-tuning.
      name: In `SUITES`.
      output_dir: Where the runs are.
      gin_params: Bindings for all pre-training.
      finetuning_gin_params: Bindings for all fine-tuning, behind the others.
    """

    source: str
    reference: str
    rows: tuple[Row, ...]
    tasks: Mapping[str, Task] = dataclasses.field(hash=False)
    data: str
    build_dir: str = "build/experiments"
    budget_flops: float | None = None
    num_seeds: int = 3
    is_pretrained_once: bool = False
    size_gin_file: str = ""
    bindings: tuple[str, ...] = ()
    name: str = ""
    output_dir: str = ""
    gin_params: tuple[str, ...] = ()
    finetuning_gin_params: tuple[str, ...] = ()


# Sizes and vocabulary are still those of the gin file's pre-training run.
FROM_SCRATCH = "FinetuningConfig.from_scratch=True"
_EPOCHS = "FinetuningDataConfig.num_train_epochs"
_METRICS = {
    "cola": "mcc",
    "mrpc": "accuracy",
    "rte": "accuracy",
    "sst": "accuracy",
    "sts": "spearman",
    "imdb": "accuracy",
    "ner": "f1",
    "squadv1": "f1",
}

# --- The paper's comparisons --------------------------------------------------

_COMPARISON_TASKS = {
    name: Task(
        _METRICS[name],
        (f"finetune/{'own_data' if name == 'imdb' else name}.gin",),
        small_gin_files=(
            f"experiments/finetuning/{name}.gin",
            "experiments/finetuning.gin",
        ),
    )
    for name in ("cola", "mrpc", "rte", "sst", "sts", "imdb", "ner")
}


def _comparison(source: str, reference: str, *rows: Row) -> Suite:
    """Rows at equal compute and the size of gin/experiments/tiny.gin."""
    return Suite(
        source,
        reference,
        rows,
        _COMPARISON_TASKS,
        "build_comparisons",
        budget_flops=6e12,
        size_gin_file="gin/experiments/tiny.gin",
        bindings=("FinetuningConfig.pooling='cls'",),
    )


def _rows(folder: str, *names: str) -> tuple[Row, ...]:
    """Rows of gin/experiments/<folder>."""
    return tuple(Row(n, f"experiments/{folder}/{n}.gin") for n in names)


_ELECTRA = "experiments/objectives/electra.gin"
_PAPER = "arXiv:2003.10555"

COMPARISONS = {
    "objectives": _comparison(
        f"Table 5 of {_PAPER}",
        "electra",
        *_rows(
            "objectives",
            "electra",
            "all_tokens_mlm",
            "replace_mlm",
            "electra_15",
            "bert",
            "bert_released_masking",
        ),
        Row("random_weights", _ELECTRA, bindings=(FROM_SCRATCH,)),
    ),
    "weight_sharing": _comparison(
        f"Weight sharing, section 3.2 of {_PAPER}",
        "token_embeddings",
        *_rows("weight_sharing", "none", "token_embeddings", "all_weights"),
    ),
    "generator_size": _comparison(
        f"Size of the generator, Figure 3, left, of {_PAPER}",
        "one_quarter",
        *_rows("generator_size", "uniform", "unigram"),
        *_rows("generator_size", "one_eighth", "one_quarter", "one_half"),
        *_rows("generator_size", "three_quarters", "one"),
    ),
    "training_algorithms": _comparison(
        f"Figure 3, right, and Appendix F of {_PAPER}",
        "joint",
        Row("joint", _ELECTRA),
        *_rows("training_algorithms", "adversarial"),
        Row(
            "two_stage",
            "experiments/training_algorithms/two_stage.gin",
            "experiments/training_algorithms/two_stage_generator.gin",
        ),
        *_rows("objectives", "bert"),
    ),
    "newer_ideas": _comparison(
        "Newer ideas, from the papers that the gin files name",
        "electra",
        *_rows("objectives", "electra"),
        *_rows("newer_ideas", "disentangled_embeddings", "distinct_positions"),
        *_rows("newer_ideas", "mask_prob_20", "mask_prob_40", "whole_words"),
    ),
    "models": _comparison(
        f"Tables 1, 2 and 6 of {_PAPER}, and arXiv:2012.08561",
        "small",
        *_rows("models", "small", "bert_small", "base", "electric"),
        *_rows("models", "large_400k", "large_1_75m"),
        *_rows("models", "small_plus_plus", "base_plus_plus"),
    ),
}

# --- Public sets --------------------------------------------------------------


_PUBLIC_GIN = "results/english.gin"
_ENGLISH = {"cola": 3, "mrpc": 3, "rte": 5, "sst": 0.5, "sts": 3}
_ENGLISH |= {"ner": 3, "squadv1": 3}
_OF_SQUAD = (
    "QuestionAnsweringConfig.max_query_length=32",
    "QuestionAnsweringConfig.doc_stride=64",
)

# Three starts, of which the first two differ in nothing but weights.
PUBLIC_SETS = Suite(
    "GLUE, CoNLL-2003 and SQuAD 1.1",
    "from_scratch",
    (
        Row("from_scratch", _PUBLIC_GIN, bindings=(FROM_SCRATCH,)),
        Row("pretrained", _PUBLIC_GIN),
        Row(
            "pretrained_decay",
            _PUBLIC_GIN,
            # As the paper has it: the lower a layer, the smaller its rate.
            bindings=("OptimizerConfig.layerwise_lr_decay=0.8",),
        ),
    ),
    {
        name: Task(
            _METRICS[name],
            (f"finetune/{name}.gin", "results/finetuning.gin"),
            (f"{_EPOCHS}={number}", *_OF_SQUAD * (name == "squadv1")),
        )
        for name, number in _ENGLISH.items()
    },
    "build_english",
    is_pretrained_once=True,
)

# --- Few labels ---------------------------------------------------------------

# Labelled reviews -> passes over them.
NUM_LABELS = {100: 20.0, 400: 10.0, 1600: 3.0, 6400: 1.0, 23000: 1.0}


def _labels(number: int, num_epochs: float) -> Task:
    path = f"build/imdb/labelled/train_{number}.tsv"
    bindings = (
        f'FinetuningDataConfig.train_file="{path}"',
        f"{_EPOCHS}={num_epochs}",
    )
    files = ("results/imdb_finetuning.gin",)
    return Task("accuracy", files, bindings, split="test")


# A high rate for the head, lower ones below.
_BY_LAYER = (
    "OptimizerConfig.learning_rate=0.002",
    "OptimizerConfig.layerwise_lr_decay=0.4",
    "FinetuningConfig.dropout=0.1",
)
# The head alone.
_OF_HEAD = (
    "OptimizerConfig.learning_rate=0.005",
    "OptimizerConfig.layerwise_lr_decay=1e-06",
    "FinetuningConfig.dropout=0.0",
)
# So few may be of one kind, for the most part.
_BALANCED = (
    "FinetuningDataConfig.weigh_windows=True",
    "FinetuningConfig.class_weights='balanced'",
)

# Chosen on dev for weights that were pre-trained for long, and for others.
_OF_PRETRAINED = {
    "100": (f"{_EPOCHS}=100.0", *_OF_HEAD, *_BALANCED),
    "400": (f"{_EPOCHS}=20.0", *_BY_LAYER),
    "1600": (f"{_EPOCHS}=8.0", *_BY_LAYER),
    "6400": (f"{_EPOCHS}=6.0", *_BY_LAYER),
    "23000": (f"{_EPOCHS}=4.0", *_BY_LAYER),
}
_ONE_RATE = {
    "100": _BALANCED,
    "23000": (f"{_EPOCHS}=4.0", "FinetuningConfig.dropout=0.1"),
}


def _reviews(source: str, numbers: Iterable[int], data: str, *rows) -> Suite:
    """Rows on the reviews of films (Maas et al., ACL 2011) by labels."""
    scratch = Row(
        "from_scratch",
        rows[0].gin_file,
        bindings=(FROM_SCRATCH,),
        task_bindings=_ONE_RATE,
    )
    return Suite(
        f"{source}, accuracy on test",
        "tfidf",
        (*rows, scratch, Row("tfidf")),
        {str(n): _labels(n, NUM_LABELS[n]) for n in numbers},
        data,
        "build/imdb",
        num_seeds=5,
        is_pretrained_once=True,
    )


FEW_LABELS = _reviews(
    "Reviews of films by labels",
    NUM_LABELS,
    "build_reviews",
    Row("pretrained", "results/imdb.gin", task_bindings=_OF_PRETRAINED),
)
# Minutes of two cores that the general model went on with reviews.
ADAPTATION = _reviews(
    "A general model adapted to reviews of films",
    (100, 400, 1600),
    "build_adaptation",
    Row("general", "results/general.gin", task_bindings=_ONE_RATE),
    *(
        Row(
            f"adapted_{minutes}",
            f"results/adapted_{minutes}.gin",
            "results/general.gin",
            task_bindings=_ONE_RATE,
        )
        for minutes in (5, 15, 45)
    ),
)

SUITES = COMPARISONS | {
    "public_sets": PUBLIC_SETS,
    "few_labels": FEW_LABELS,
    "adaptation": ADAPTATION,
}
