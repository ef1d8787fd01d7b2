"""Asks an exported classifier: texts -> their labels and how sure it is.

    python tools/quickstart/query_saved_model.py \\
        --saved_model=build/quickstart/saved_model \\
        "Return the eigenvalues of a symmetric matrix."
"""

import argparse
import os
import sys

from electra_tf.command_line import arguments


def main(argv=None) -> int:
    """Parses the flags and asks; returns the exit code."""
    parser = arguments.ArgumentParser(
        prog="query_saved_model", description=__doc__
    )
    add = parser.add_argument
    add(
        "--saved-model",
        required=True,
        help="one version of a SavedModel, or the folder of its versions",
    )
    add("text", nargs="+")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_query, parser, argv)


def _query(args: argparse.Namespace) -> None:
    """Prints the label and the best score of every text."""
    from electra_tf.inference import predictor

    model = predictor.ExportedModel(args.saved_model, ["label", "scores"])
    if model.input_names != ["text"]:
        raise ValueError(
            "Expected a classifier of single texts. Received: a model that "
            f"takes {' and '.join(model.input_names)}: ask it with "
            "python -m electra_tf.predict"
        )
    answers = model.predict([[os.fsencode(text)] for text in args.text])
    for text, answer in zip(args.text, answers, strict=True):
        score = max(answer["scores"].values())
        print(f"{answer['label']}  {score:.3f}  {text}")


if __name__ == "__main__":
    sys.exit(main())
