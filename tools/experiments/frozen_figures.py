"""What frozen_tasks.py reads beside what fine-tuning makes of it.

The figures hold the scores of both:

  {"rows": [{"row", "budget_flops", "seed", "frozen": {task: score}}],
   "stages": [{"step", "disc_auc", "fine_tuned", "mean", "cls"}]}

`rows` has all tasks of `frozen_tasks.TASKS`, in per cent; `stages`, checkpoints
of one run, has STS-B, fine-tuned, and frozen by either pooling.
"""

import experiment_suites
import frozen_tasks
import pictures
import tables

# Key of a stage -> its title.
_SCORES = {
    "fine_tuned": "fine-tuned",
    "mean": "frozen, mean of all tokens",
    "cls": "frozen, [CLS]",
}
_RANDOM = "random weights"


def blocks(figures: dict) -> dict[str, str]:
    """The tables, as Markdown, by their names."""
    tasks = [experiment_suites.TASKS[name] for name in frozen_tasks.TASKS]
    of_rows = [
        ["row", "FLOPs", "seed"]
        + [f"{task.title}, {task.metric_title}" for task in tasks]
    ]
    for row in figures["rows"]:
        flops = f"{row['budget_flops']:g}" if row["budget_flops"] else "0"
        of_rows.append(
            [row["row"], flops.replace("e+", "e"), str(row["seed"])]
            + [f"{row['frozen'][name]:.1f}" for name in frozen_tasks.TASKS]
        )
    of_stages = [["step", "disc_auc", *_SCORES.values()]]
    for stage in figures["stages"]:
        auc = stage["disc_auc"]
        of_stages.append(
            [
                f"{stage['step']:,}" if stage["step"] else _RANDOM,
                f"{auc:.3f}" if auc is not None else "",
                *(f"{stage[name]:.1f}" for name in _SCORES),
            ]
        )
    return {
        "frozen": tables.markdown(of_rows),
        "frozen-stages": tables.markdown(of_stages),
    }


def draw(figures: dict, path: str) -> None:
    """Writes the plot of the stages: the scores, and the discriminator's AUC.

    Args:
      figures: As above.
      path: A .png, or what else matplotlib writes.
    """
    picture, (scores, aucs) = pictures.new(9.2, 3.8, 2)
    stages = figures["stages"]
    steps = [stage["step"] for stage in stages]
    for (name, title), marker in zip(_SCORES.items(), "osD", strict=True):
        values = [stage[name] for stage in stages]
        scores.plot(steps, values, marker=marker, markersize=4, label=title)
    scores.set_ylabel("STS-B, Spearman, dev, per cent")
    scores.set_title("What a checkpoint knows, and what is made of it")
    scores.legend(frameon=False, fontsize=9)
    trained = [stage for stage in stages if stage["disc_auc"] is not None]
    aucs.plot(
        [stage["step"] for stage in trained],
        [stage["disc_auc"] for stage in trained],
        color="0.3",
        marker="o",
        markersize=4,
    )
    aucs.set_ylabel("AUC of the discriminator, in training")
    aucs.set_title("How well replaced tokens are found")
    for axes in (scores, aucs):
        axes.set_xlabel("steps of pre-training")
        axes.set_xlim(left=0)
        axes.title.set_fontsize(10)
    picture.savefig(path, dpi=110)
