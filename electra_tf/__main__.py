"""python -m electra_tf, which is the command electra-tf as well."""

import sys

from electra_tf.command_line import verbs


def main() -> int:
    """Runs the verb of the command line; returns the exit code."""
    return verbs.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
