"""The rows of the paper's comparisons, and what the paper found.

A row is a gin file below gin/experiments. Numbers are averages over GLUE's dev
sets as the papers print them; None where there is only a plot, or nothing.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    """One variant of a comparison.

    Attributes:
      name: Of the row on the command line; unique in its suite.
      gin_file: Below gin/experiments, without ".gin".
      title: For people.
      paper: GLUE in per cent; None where no number is printed.
      first_stage: Of two stages, the gin file of the first: a masked language
        model that both networks start from. Each stage has as many steps, and
        both together cost what another row costs.
      from_scratch: Nothing is pre-trained: the network of the gin file is
        fine-tuned from random weights. Sizes and vocabulary are read from the
        row that is trained, which must be there or run as well.
    """

    name: str
    gin_file: str
    title: str
    paper: float | None = None
    first_stage: str = ""
    from_scratch: bool = False


@dataclasses.dataclass(frozen=True)
class Suite:
    """Rows that are compared with one of them.

    Attributes:
      title: For people.
      source: Where the paper has this comparison.
      reference: Name of the row that the others are compared with.
      rows: In the order of the table.
    """

    title: str
    source: str
    reference: str
    rows: tuple[Row, ...]


def _rows(folder: str, *rows: tuple) -> tuple[Row, ...]:
    """Rows of a folder, from their names, titles and the paper's numbers."""
    return tuple(Row(row[0], f"{folder}/{row[0]}", *row[1:]) for row in rows)


_ELECTRA = "arXiv:2003.10555"

SUITES: dict[str, Suite] = {
    "objectives": Suite(
        "Objectives",
        f"Table 5 of {_ELECTRA}",
        "electra",
        _rows(
            "objectives",
            ("electra", "ELECTRA", 85.0),
            ("all_tokens_mlm", "All-Tokens MLM", 84.3),
            ("replace_mlm", "Replace MLM", 82.4),
            ("electra_15", "ELECTRA 15 %", 82.4),
            ("bert", "BERT", 82.2),
            ("bert_released_masking", "BERT, released masking"),
        )
        + (
            Row(
                "random_weights",
                "objectives/electra",
                "random weights",
                from_scratch=True,
            ),
        ),
    ),
    "weight_sharing": Suite(
        "Weight sharing",
        f"section 3.2 of {_ELECTRA}, after 500k steps",
        "token_embeddings",
        _rows(
            "weight_sharing",
            ("none", "nothing shared", 83.6),
            ("token_embeddings", "embeddings", 84.3),
            ("all_weights", "all weights", 84.4),
        ),
    ),
    "generator_size": Suite(
        "Size of the generator",
        f"Figure 3, left, of {_ELECTRA}",
        "one_quarter",
        _rows(
            "generator_size",
            ("uniform", "uniform"),
            ("unigram", "unigram"),
            ("one_eighth", "1/8"),
            ("one_quarter", "1/4"),
            ("one_half", "1/2"),
            ("three_quarters", "3/4"),
            ("one", "1"),
        ),
    ),
    "training_algorithms": Suite(
        "Training algorithms",
        f"Figure 3, right, and Appendix F of {_ELECTRA}",
        "joint",
        _rows(
            "training_algorithms",
            ("joint", "joint"),
            ("adversarial", "adversarial"),
            (
                "two_stage",
                "two stages",
                None,
                "training_algorithms/two_stage_generator",
            ),
        )
        + _rows("objectives", ("bert", "BERT")),
    ),
    "newer_ideas": Suite(
        "Newer ideas",
        "the papers that the gin files name",
        "electra",
        _rows("objectives", ("electra", "ELECTRA"))
        + _rows(
            "newer_ideas",
            ("disentangled_embeddings", "disentangled embeddings"),
            ("distinct_positions", "distinct positions"),
            ("mask_prob_20", "20 % masked"),
            ("mask_prob_40", "40 % masked"),
            ("whole_words", "whole words"),
        ),
    ),
    "models": Suite(
        "Models",
        f"Tables 1, 2 and 6 of {_ELECTRA}, and arXiv:2012.08561",
        "small",
        _rows(
            "models",
            ("small", "ELECTRA-Small", 79.9),
            ("bert_small", "BERT-Small", 75.1),
            ("base", "ELECTRA-Base", 85.1),
            ("electric", "Electric", 84.1),
            ("large_400k", "ELECTRA-400K", 89.0),
            ("large_1_75m", "ELECTRA-1.75M", 89.5),
            # Their numbers in the README of the release are of the test set.
            ("small_plus_plus", "ELECTRA-Small++"),
            ("base_plus_plus", "ELECTRA-Base++"),
        ),
    ),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """What a model is fine-tuned on.

    Attributes:
      title: For people.
      metric: Its key in results.json, in per cent.
      metric_title: For people.
      gin_file: Of the task, below gin/; what the experiments change of it is in
        gin/experiments/finetuning/.
      of_whole_text: Whether its head reads one vector of a text, so that
        `FinetuningConfig.pooling` decides which.
    """

    title: str
    metric: str
    metric_title: str
    gin_file: str
    of_whole_text: bool = True


TASKS: dict[str, Task] = {
    "cola": Task("CoLA", "mcc", "Matthews", "finetune/cola.gin"),
    "mrpc": Task("MRPC", "accuracy", "accuracy", "finetune/mrpc.gin"),
    "rte": Task("RTE", "accuracy", "accuracy", "finetune/rte.gin"),
    "sst": Task("SST-2", "accuracy", "accuracy", "finetune/sst.gin"),
    "sts": Task("STS-B", "spearman", "Spearman", "finetune/sts.gin"),
    "imdb": Task("IMDB", "accuracy", "accuracy", "finetune/own_data.gin"),
    "ner": Task("CoNLL-2003", "f1", "F1 of spans", "finetune/ner.gin", False),
}
