"""Asks an exported classifier, as a program without electra_tf would.

python tools/quickstart/query_saved_model.py \\
    --saved_model=build/quickstart/saved_model/1 \
    "Return the eigenvalues of a symmetric matrix."

Imports tensorflow and tensorflow_text (for its ops), and nothing else that is
not in Python's standard library.
"""

import argparse
import os
import sys


def main() -> int:
    """Prints the label and the three best scores of every text."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--saved_model", required=True)
    parser.add_argument("text", nargs="+")
    args = parser.parse_args()
    if not os.path.isfile(os.path.join(args.saved_model, "saved_model.pb")):
        print(
            "query_saved_model: error: expected a SavedModel at "
            f"{args.saved_model}, found none: export one with "
            "tools/export_saved_model.py",
            file=sys.stderr,
        )
        return 1
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the ops)

    loaded = tf.saved_model.load(args.saved_model)
    call = loaded.signatures["serving_default"]
    names = list(call.structured_input_signature[1])
    if names != ["text"] or "label" not in call.structured_outputs:
        print(
            "query_saved_model: error: expected a classifier of single texts, "
            f"received a model that takes {' and '.join(names)} and returns "
            f"{', '.join(sorted(call.structured_outputs))}: ask it with "
            "python -m electra_tf.predict",
            file=sys.stderr,
        )
        return 1
    answer = call(text=tf.constant(args.text))
    for text, label, scores in zip(
        args.text,
        answer["label"].numpy(),
        answer["scores"].numpy(),
        strict=True,
    ):
        print(f"{label.decode()}  {max(scores):.3f}  {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
