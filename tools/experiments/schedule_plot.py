"""The figures of run_schedule.py as a plot: held-out loss over steps."""

import collections
import statistics

import pictures

_TITLES = {"straight": "straight runs", "trunk": "trunk and its decays"}
_STYLES = {
    "straight": {"color": "C0", "marker": "o"},
    "trunk": {"color": "C1", "marker": "s"},
}


def draw(figures: dict, path: str) -> None:
    """Writes the plot: means over the seeds that have all runs.

    Left the course of each run, right its end, where bars are the deviation
    over seeds.

    Args:
      figures: As `run_schedule.collect` makes them.
      path: A .png, or what else matplotlib writes.
    """
    picture, (course, end) = pictures.new(9.2, 4.0, 2)
    seeds = set(figures["summary"]["seeds"])
    for (way, length), points in _curves(figures["runs"], seeds).items():
        course.plot(
            *zip(*points, strict=True),
            label=_TITLES[way] if length == max(figures["lengths"]) else None,
            markersize=4,
            linewidth=1.2,
            **_STYLES[way],
        )
    course.set_title("In the course of training", fontsize=10)
    for shift, way in ((-60, "straight"), (60, "trunk")):
        found = [
            (entry["length"], entry["total_loss"][way])
            for entry in figures["summary"]["lengths"]
        ]
        end.errorbar(
            [length + shift for length, _ in found],
            [loss["mean"] for _, loss in found],
            yerr=[loss["stdev"] or 0.0 for _, loss in found],
            linestyle="",
            capsize=3,
            markersize=5,
            label=_TITLES[way],
            **_STYLES[way],
        )
    of_seeds = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    end.set_title(f"At the end, {of_seeds}", fontsize=10)
    end.set_xticks(figures["lengths"])
    for axes in (course, end):
        axes.set_xlabel("steps")
        axes.set_ylabel("held-out total_loss, nats")
        axes.legend(frameon=False, fontsize=9)
    picture.savefig(path, dpi=110)


def _curves(runs, seeds) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """Way and length -> steps with their mean loss, in order.

    A branch begins where the trunk was.
    """
    losses: dict[tuple[str, int], dict[int, list[float]]] = {}
    for run in runs:
        if run["seed"] in seeds:
            of_run = losses.setdefault(
                (run["way"], run["length"]), collections.defaultdict(list)
            )
            for step, loss in run["curve"]:
                of_run[step].append(loss)
    trunk = losses[max(key for key in losses if key[0] == "trunk")]
    for (way, length), of_run in losses.items():
        if way == "trunk" and of_run is not trunk:
            before = max(step for step in trunk if step < length)
            of_run[before] = trunk[before]
    return {
        key: [
            (step, statistics.fmean(of_step))
            for step, of_step in sorted(of_run.items())
        ]
        for key, of_run in losses.items()
    }
