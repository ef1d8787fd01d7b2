"""What the figures of a run say about it, in plain words.

Imports no TensorFlow.
"""

from electra_tf import configs

# Before this share of the steps a discriminator that finds nothing is young.
_GRACE = 0.1
_MIN_GRACE_STEPS = 500
# Fewer of the replaced tokens found than this, ranked hardly better than by
# chance (0.5): it says "original" to everything.
_COLLAPSED_RECALL = 0.01
_COLLAPSED_AUC = 0.6
# A generator of the paper's sizes is right for about 55 % of its samples when
# it is trained; one that is right more often in the first half of a run leaves
# the discriminator little to find.
_TOO_GOOD_ACCURACY = 0.75
# Of the steps of a float16 run that are not taken.
_MANY_SKIPPED = 0.1


def advice(
    config: configs.PretrainingConfig, step: int, metrics: dict[str, float]
) -> dict[str, str]:
    """What a user should know about the metrics of a look.

    Args:
      config: Of the run.
      step: Of the look.
      metrics: Of training or of an evaluation.

    Returns:
      Name of a finding -> a sentence; empty where all is as it should be.
    """
    steps = config.run.num_train_steps
    found = {}
    is_young = step < max(_MIN_GRACE_STEPS, _GRACE * steps)
    recall = metrics.get("disc_recall", 1.0)
    if (
        not is_young
        and recall < _COLLAPSED_RECALL
        and metrics.get("disc_auc", 1.0) < _COLLAPSED_AUC
    ):
        found["collapsed"] = (
            "the discriminator has collapsed to the majority class: it calls "
            f"every token original (disc_recall {recall:.3f}, disc_auc "
            f"{metrics['disc_auc']:.2f}), so its accuracy of "
            f"{metrics.get('disc_accuracy', 0.0):.2f} means nothing. Try a "
            "lower OptimizerConfig.learning_rate, a longer warm-up, or more "
            "weight on it (ElectraConfig.disc_weight="
            f"{config.model.disc_weight:g})"
        )
    accuracy = metrics.get("sampled_masked_lm_accuracy", 0.0)
    if step < steps / 2 and accuracy > _TOO_GOOD_ACCURACY:
        found["generator_too_good"] = (
            "the generator is too good too early: "
            f"{100 * accuracy:.0f} % of its samples are the true token, so "
            f"only {100 * metrics.get('replaced_rate', 0.0):.1f} % of all "
            "tokens are replaced and the discriminator has little to learn "
            "from. Try a smaller ElectraConfig.generator_hidden_size "
            f"({config.model.generator_hidden_size:g}) or more text: the same "
            "examples may come too often"
        )
    skipped = metrics.get("skipped_steps", 0.0)
    if not is_young and skipped > _MANY_SKIPPED * step:
        found["skipped_steps"] = (
            f"{skipped:g} of {step} steps were not taken, as their float16 "
            "gradients were not finite. Try RunConfig.dtype_policy="
            "'mixed_bfloat16' or a lower OptimizerConfig.learning_rate"
        )
    return found
