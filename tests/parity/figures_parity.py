"""Compares figures that need no golden model: costs, rates, draws, weights.

Where random draws are compared, ours are from a fixed seed, so a check passes
always or never. Two estimates of one quantity are let differ by four standard
errors of their difference, which is sqrt(2) times the standard error of one.
"""

import collections
import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.command_line import original_settings
from electra_tf.model import ablations, finetuning_model, heads, masking
from electra_tf.model import costs as costs_lib
from electra_tf.training import optimization
from tests import original_configs
from tests.parity import comparison
from tests.parity.cases import Case
from tests.parity.check import Check

NOT_COMPARED = {
    "pretrain/masking/statistics.json:*/tf_seed": "of the original's draws",
}

STANDARD_ERRORS = 4.0 * math.sqrt(2.0)
SEED = 1
RATE_TOLERANCE = 1e-6

# Argument of the original -> argument here.
FLOPS_ARGUMENTS = {
    "h": "hidden_size",
    "l": "num_hidden_layers",
    "s": "max_seq_length",
    "v": "vocab_size",
    "e": "embedding_size",
    "i": "intermediate_size",
    "heads": "num_attention_heads",
    "head_size": "head_size",
    "output_frac": "output_fraction",
    "sparse_embed_lookup": "sparse_embed_lookup",
    "decoder": "is_decoder",
}
RATE_ARGUMENTS = {
    "learning_rate": "learning_rate",
    "warmup_steps": "num_warmup_steps",
    "warmup_proportion": "warmup_proportion",
    "lr_decay_power": "lr_decay_power",
    "layerwise_lr_decay_power": "layerwise_lr_decay",
    "weight_decay_rate": "weight_decay_rate",
}


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Whichever of the files there are, by their entries."""
    for name, compare in (
        ("flops.json", _check_flops),
        ("learning_rate_schedules.json", _check_rates),
        ("initial_weight_statistics.json", _check_initial_weights),
        ("pretrain/masking/number_of_predictions.json", _check_predictions),
        ("pretrain/masking/statistics.json", _check_masking),
    ):
        if (golden_dir / name).exists():
            yield Case(
                name,
                functools.partial(_entry_cases, golden_dir, name, compare),
            )


def _entry_cases(golden_dir, file, compare) -> Iterator[Case]:
    golden = comparison.read_json(golden_dir / file)
    for entry in golden:
        yield Case(
            f"{file}: {entry}",
            functools.partial(compare, golden_dir, file, entry, golden),
        )


def _check(file, compared, error, tolerance, *entries: str) -> Check:
    consumed = frozenset(f"{file}:{entry}" for entry in entries)
    return Check(file, compared, float(error), float(tolerance), consumed)


# --- flops.json ---


def _check_flops(golden_dir, file, part, golden) -> Iterator[Check]:
    """One part of the file, if it is known."""
    compare = {
        "MODEL_FLOPS": _check_whole_training,
        "electra_train": _check_both_networks,
        "models": _check_parts,
    }.get(part)
    if compare:
        yield from compare(file, golden[part])


def _check_whole_training(file, golden) -> Iterator[Check]:
    costs = costs_lib.model_costs()
    for name, flops in golden.items():
        if name in costs:
            yield _check(
                file,
                f"whole training: {name}",
                comparison.relative_error(costs[name].train_flops, flops),
                0,
                f"MODEL_FLOPS/{name}",
            )


def _check_both_networks(file, golden) -> Iterator[Check]:
    for name, case in golden.items():
        arguments = dict(case["arguments"])
        generator = arguments.pop("h_g"), arguments.pop("l_g")
        training = (
            arguments.pop("batch_size"),
            arguments.pop("train_steps"),
            arguments.pop("tied_embeddings"),
        )
        arguments["h"] = arguments.pop("h_d")
        arguments["l"] = arguments.pop("l_d")
        flops = costs_lib.electra_train_flops(
            _transformer(arguments), *generator, *training
        )
        yield _check(
            file,
            f"generator and discriminator: {name}",
            comparison.relative_error(flops, case["flops"]),
            0,
            f"electra_train/{name}/arguments",
            f"electra_train/{name}/flops",
        )


def _check_parts(file, golden) -> Iterator[Check]:
    for name, case in golden.items():
        model = _transformer(case["arguments"])
        for part, flops in case.items():
            ours = _flops_part(model, part)
            if ours is not None:
                yield _check(
                    file,
                    f"parts: {name} {part}",
                    comparison.relative_error(ours, flops),
                    0,
                    f"models/{name}/arguments",
                    f"models/{name}/{part}",
                )


def _transformer(arguments: dict) -> costs_lib.Transformer:
    return costs_lib.Transformer(
        **{FLOPS_ARGUMENTS[name]: value for name, value in arguments.items()}
    )


def _flops_part(model, part: str) -> float | None:
    training = re.fullmatch(
        r"train_flops_(discriminator_)?batch(\d+)_steps(\d+)", part
    )
    if training:
        return model.train_flops(
            int(training.group(2)),
            int(training.group(3)),
            discriminator=bool(training.group(1)),
        )
    ours = getattr(model, part, None)
    return ours() if callable(ours) else ours


# --- learning_rate_schedules.json ---


def _check_rates(golden_dir, file, name, golden) -> Iterator[Check]:
    case = golden[name]
    arguments = dict(case["arguments"])
    num_train_steps = arguments.pop("num_train_steps")
    num_layers = arguments.pop("n_transformer_layers", 0)
    # Neither kind of warm-up is the original's default.
    settings = {"num_warmup_steps": 0} | {
        RATE_ARGUMENTS[key]: value for key, value in arguments.items()
    }
    config = configs.OptimizerConfig(**settings)
    rates = _rates(config, num_train_steps, case["steps"])
    entries = (f"{name}/arguments", f"{name}/steps")
    if not isinstance(case["learning_rate"], dict):
        yield _check(
            file,
            name,
            comparison.relative_error(rates, case["learning_rate"]),
            RATE_TOLERANCE,
            f"{name}/learning_rate",
            *entries,
        )
        return
    for key, layer_rates in case["learning_rate"].items():
        scale = optimization.layerwise_scale(
            f"electra/{key}kernel".replace("//", "/"),
            num_layers,
            config.layerwise_lr_decay,
            config.layerwise_top_layer_scaled,
        )
        yield _check(
            file,
            f"{name}: {key}",
            comparison.relative_error(np.multiply(rates, scale), layer_rates),
            RATE_TOLERANCE,
            f"{name}/learning_rate/{key}",
            *entries,
        )


def _rates(config, num_train_steps: int, steps: list[int]) -> list[float]:
    """The optimizer's rate at each step count.

    In a graph, as the original's and ours are in training: there TensorFlow
    multiplies by 1 / num_train_steps instead of dividing, which rounds
    otherwise. A fractional power enlarges that where the rate ends: op by op,
    the square root at step 999 of 1000 is 3e-5 of itself away.
    """
    optimizer = optimization.AdamWeightDecay(config, num_train_steps)
    rate = tf.function(lambda: tf.identity(optimizer.learning_rate))
    rates = []
    for step in steps:
        optimizer.iterations.assign(step)
        rates.append(float(rate()))
    return rates


# --- initial_weight_statistics.json ---


def _check_initial_weights(golden_dir, file, group, golden) -> Iterator[Check]:
    keras.utils.set_random_seed(SEED)
    statistics = golden[group]
    overrides = golden["model_hparam_overrides"]
    if group.startswith("pretraining_"):
        config = original_configs.electra_config(
            {
                "model_size": group.removeprefix("pretraining_"),
                "model_hparam_overrides": overrides,
            }
        )
        model = ablations.make_model(config, masking.SpecialIds(2, 3, 4))
        variables = model.trainable_variables
    elif group == "finetuning_heads":
        hidden_size = original_settings.encoder_config(
            {"model_hparam_overrides": overrides}
        ).hidden_size
        variables = _head_variables(statistics, hidden_size)
    else:
        return  # The overrides, or what no check will have read.
    ours = {variable.path: variable.numpy() for variable in variables}
    yield _check(
        file,
        f"{group}: names",
        len(ours.keys() ^ statistics.keys()),
        0,
        "model_hparam_overrides",
    )
    for name in sorted(ours.keys() & statistics.keys()):
        yield from _check_initial_weight(
            file, group, name, ours[name], statistics[name]
        )


def _head_variables(statistics: dict, hidden_size: int) -> list:
    """Variables of fresh heads of the tasks named in the statistics."""
    names_of_task = collections.defaultdict(list)
    for name in statistics:
        names_of_task[name.split("/")[1]].append(name)
    task_heads: list[heads.Head] = []
    for task, names in sorted(names_of_task.items()):
        kernel = f"task_specific/{task}/dense/kernel"
        if len(names) > len(("kernel", "bias")):
            head = heads.QuestionAnsweringHead(
                task, hidden_size, configs.QuestionAnsweringConfig()
            )
        else:
            _, num_labels = statistics[kernel]["shape"]
            head = heads.ClassificationHead(task, hidden_size, num_labels)
        task_heads.append(head)
    layer = finetuning_model.TaskSpecific(task_heads)
    layer.build()
    return layer.trainable_variables


def _check_initial_weight(
    file, group, name, ours: np.ndarray, golden: dict
) -> Iterator[Check]:
    entry = f"{group}/{name}"

    def check(statistic, error, tolerance, *statistics):
        return _check(
            file,
            f"{group}, {statistic}: {name}",
            error,
            tolerance,
            *(f"{entry}/{key}" for key in statistics),
        )

    yield check("shape", list(ours.shape) != golden["shape"], 0, "shape")
    ours = ours.astype(np.float64)
    if golden["std"] == 0.0:
        error = max(
            comparison.absolute_error(extreme, golden[key])
            for key, extreme in (
                ("min", ours.min()),
                ("max", ours.max()),
                ("mean", ours.mean()),
            )
        )
        yield check(
            "constants",
            error,
            0,
            *("min", "max", "mean", "std", "mean_abs_over_std"),
        )
        return
    count, deviation = ours.size, golden["std"]
    tolerances = {
        "mean": STANDARD_ERRORS * deviation / math.sqrt(count),
        # That of a normal distribution; those cut off have smaller ones.
        "std": STANDARD_ERRORS * deviation / math.sqrt(2 * count),
        # 0.866 for a uniform distribution, 0.822 for a truncated normal.
        "mean_abs_over_std": STANDARD_ERRORS * 0.5 / math.sqrt(count),
        # The extreme of `count` draws is, on average, 1 / (count * density at
        # the bound) short of the bound: 20 deviations / count for a normal
        # distribution cut at two. Ten times that is a chance of 1 in 20,000.
        "min": 200 * deviation / count,
        "max": 200 * deviation / count,
    }
    values = {
        "mean": ours.mean(),
        "std": ours.std(),
        "mean_abs_over_std": np.abs(ours).mean() / ours.std(),
        "min": ours.min(),
        "max": ours.max(),
    }
    for statistic, value in values.items():
        yield check(
            statistic,
            comparison.absolute_error(value, golden[statistic]),
            tolerances[statistic],
            statistic,
        )


# --- pretrain/masking/ ---


def _masking_config(max_seq_length: int, mask_prob: float):
    return configs.ElectraConfig(
        encoder=configs.EncoderConfig(
            vocab_size=8,
            hidden_size=1,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=1,
            max_position_embeddings=max_seq_length,
        ),
        max_seq_length=max_seq_length,
        mask_prob=mask_prob,
    )


def _check_predictions(golden_dir, file, name, golden) -> Iterator[Check]:
    """How many positions rows of every length have, exactly."""
    settings = dict(part.split("=") for part in name.split(","))
    config = _masking_config(
        int(settings["max_seq_length"]), float(settings["mask_prob"])
    )
    lengths = np.arange(1, config.max_seq_length + 1)
    ours = masking.number_of_predictions(
        tf.sequence_mask(lengths, config.max_seq_length, tf.int32),
        config.mask_prob,
        config.max_predictions_per_seq,
    )
    yield _check(
        file,
        f"predictions per row: {name}",
        comparison.num_different(
            ours, golden[name]["predictions_for_1_to_L_tokens"]
        ),
        0,
        f"{name}/predictions_for_1_to_L_tokens",
    )
    yield _check(
        file,
        f"largest number: {name}",
        config.max_predictions_per_seq
        != golden[name]["max_predictions_per_seq"],
        0,
        f"{name}/max_predictions_per_seq",
    )


@dataclasses.dataclass
class _Draws:
    """What masking did to many rows.

    Attributes:
      num_predictions: [R], slots used of each row (R rows, L length).
      num_tokens: [R], tokens of each row.
      counts: [R, L], how often each position was drawn.
      is_mask: [R, L], whether it became [MASK].
      is_changed: [R, L], whether it became anything else.
      is_candidate: [R, L].
      tenths: [10], where among a row's candidates the draws fall.
    """

    num_predictions: np.ndarray
    num_tokens: np.ndarray
    counts: np.ndarray
    is_mask: np.ndarray
    is_changed: np.ndarray
    is_candidate: np.ndarray
    tenths: np.ndarray


def _draw(input_ids, input_mask, config, rng) -> _Draws:
    """Masks rows as pre-training does."""
    num_rows, length = input_ids.shape
    cls_id, sep_id = input_ids[0, 0], input_ids[0, input_mask[0].sum() - 1]
    # Any id that no row holds will do for [MASK].
    mask_id = int(input_ids.max()) + 1
    slots = config.max_predictions_per_seq
    candidate = masking.is_candidate(
        input_ids, input_mask, (int(cls_id), int(sep_id), mask_id)
    )
    drawn = masking.draw_positions(
        candidate, rng.uniform(size=(num_rows, slots)).astype(np.float32)
    )
    wanted = masking.number_of_predictions(input_mask, config.mask_prob, slots)
    masked = masking.mask(
        masking.Inputs(input_ids, input_mask, tf.zeros_like(input_mask)),
        drawn,
        rng.uniform(size=(num_rows, slots)).astype(np.float32),
        wanted,
        mask_id,
        config.masked_token_prob,
    )
    used = masked.masked_lm_weights.numpy() > 0
    rows, _ = np.nonzero(used)
    positions = masked.masked_lm_positions.numpy()[used]
    counts = np.zeros((num_rows, length), np.int64)
    np.add.at(counts, (rows, positions), 1)
    candidate = candidate.numpy()
    ranks = np.cumsum(candidate, axis=-1) - 1
    # A candidate is an interval, in which a draw falls anywhere.
    inside = ranks[rows, positions] + rng.uniform(size=len(rows))
    tenths = (10 * inside / candidate.sum(axis=-1)[rows]).astype(np.int64)
    is_mask = masked.input_ids.numpy() == mask_id
    return _Draws(
        num_predictions=wanted.numpy(),
        num_tokens=input_mask.sum(axis=-1),
        counts=counts,
        is_mask=is_mask,
        is_changed=(masked.input_ids.numpy() != input_ids) & ~is_mask,
        is_candidate=candidate,
        tenths=np.bincount(tenths, minlength=10),
    )


def _statistics(draws: _Draws) -> dict[str, float]:
    """The figures that are recorded with a standard error."""
    chosen = draws.counts > 0
    distinct = chosen.sum(axis=-1)
    total = draws.num_predictions.sum()
    candidates = draws.is_candidate.sum(axis=-1)
    # Of n candidates, k draws leave each untouched with (1 - 1/n)^k.
    expected = candidates * (
        1.0 - (1.0 - 1.0 / candidates) ** draws.num_predictions
    )
    return {
        "distinct_positions_over_tokens": np.mean(distinct / draws.num_tokens),
        "distinct_positions_per_row": np.mean(distinct),
        "distinct_positions_per_row_expected_uniform_with_replacement": (
            np.mean(expected)
        ),
        "expected_fraction_if_drawn_uniformly_with_replacement": (
            1.0 - expected.sum() / total
        ),
        "fraction_of_draws_that_repeat_an_earlier_position": (
            1.0 - distinct.sum() / total
        ),
        "fraction_of_rows_with_a_repeated_position": np.mean(
            distinct < draws.num_predictions
        ),
        "p_becomes_MASK_given_distinct_chosen_position": np.mean(
            draws.is_mask[chosen]
        ),
        "p_becomes_MASK_given_drawn_once": np.mean(
            draws.is_mask[draws.counts == 1]
        ),
        "p_becomes_MASK_given_drawn_twice": np.mean(
            draws.is_mask[draws.counts == 2]
        ),
        "p_becomes_MASK_given_drawn_3_or_more": np.mean(
            draws.is_mask[draws.counts >= 3]
        ),
    }


# Expectations vary with the rows that were drawn, as their estimates do.
STANDARD_ERROR_OF = {
    "distinct_positions_per_row_expected_uniform_with_replacement": (
        "distinct_positions_per_row"
    ),
    "expected_fraction_if_drawn_uniformly_with_replacement": (
        "fraction_of_draws_that_repeat_an_earlier_position"
    ),
}


def _check_masking(golden_dir, file, name, goldens) -> Iterator[Check]:
    """Statistics of masking, ours from as many rows of the same source."""
    golden = goldens[name]
    config = _masking_config(golden["max_seq_length"], golden["mask_prob"])
    rng = np.random.RandomState(SEED)
    source = f"examples/{golden['source']}"
    with np.load(golden_dir / source) as arrays:
        rows = rng.randint(len(arrays["input_ids"]), size=golden["rows"])
        draws = _draw(
            arrays["input_ids"][rows],
            arrays["input_mask"][rows],
            config,
            rng,
        )
    for statistic, ours in _statistics(draws).items():
        yield _check_statistic(file, name, statistic, ours, golden)
    yield from _check_tenths(file, name, draws, golden)
    by_tokens = golden["predictions_per_row_by_number_of_tokens"]
    lengths = np.array([int(length) for length in by_tokens])
    predictions = masking.number_of_predictions(
        tf.sequence_mask(lengths, config.max_seq_length, tf.int32),
        config.mask_prob,
        config.max_predictions_per_seq,
    )
    exact = {
        "changed_to_a_token_other_than_MASK": draws.is_changed.sum(),
        "unchosen_positions_changed": np.sum(
            (draws.is_changed | draws.is_mask) & (draws.counts == 0)
        ),
        "max_predictions_per_seq": config.max_predictions_per_seq,
    }
    for statistic, ours in exact.items():
        yield _check(
            file,
            f"{name}, exact: {statistic}",
            abs(int(ours) - golden[statistic]),
            0,
            f"{name}/{statistic}",
            *(
                f"{name}/{key}"
                for key in ("mask_prob", "max_seq_length", "rows", "source")
            ),
        )
    yield _check(
        file,
        f"{name}, exact: predictions_per_row_by_number_of_tokens",
        comparison.num_different(predictions, list(by_tokens.values())),
        0,
        f"{name}/predictions_per_row_by_number_of_tokens",
    )
    on_special = np.sum(draws.counts * ~draws.is_candidate)
    yield Check(
        file,
        f"{name}, exact: chosen_special_positions",
        float(on_special) + sum(golden["chosen_special_positions"].values()),
        0,
        frozenset(
            (
                f"{file}:{name}/chosen_special_positions",
                f"{source}:input_ids",
                f"{source}:input_mask",
            )
        ),
    )


def _check_statistic(file, name, statistic, ours, golden: dict) -> Check:
    recorded = golden[STANDARD_ERROR_OF.get(statistic, statistic)]
    value = golden[statistic]
    # A share of all or nothing shows no error; it may be one event off.
    error = max(recorded["standard_error"], 1.0 / recorded["n"])
    return _check(
        file,
        f"{name}, 4 standard errors: {statistic}",
        abs(ours - (value["value"] if isinstance(value, dict) else value)),
        STANDARD_ERRORS * error,
        f"{name}/{statistic}",
    )


def _check_tenths(file, name, draws: _Draws, golden: dict) -> Iterator[Check]:
    """Draws are spread evenly over a row's candidates."""
    total = draws.tenths.sum()
    shares = draws.tenths / total
    yield _check(
        file,
        f"{name}, 4 standard errors: where_draws_fall_among_candidates",
        comparison.absolute_error(
            shares, golden["where_draws_fall_among_candidates_in_tenths"]
        ),
        STANDARD_ERRORS * math.sqrt(0.1 * 0.9 / total),
        f"{name}/where_draws_fall_among_candidates_in_tenths",
    )
    # Mean 9 and variance 18, of which both have their own.
    chi_square = float(np.sum((shares - 0.1) ** 2) / 0.1 * total)
    yield _check(
        file,
        f"{name}, 4 standard errors: chi_square_9_degrees_of_freedom",
        abs(chi_square - golden["chi_square_9_degrees_of_freedom"]),
        STANDARD_ERRORS * math.sqrt(2 * 9),
        f"{name}/chi_square_9_degrees_of_freedom",
    )
