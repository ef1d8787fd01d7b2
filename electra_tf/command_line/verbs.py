"""The command electra-tf: a verb -> one of the doors, which takes the rest.

A door stays what it is: `electra-tf convert` is tools/convert_checkpoint.py,
and `electra-tf pretrain` is python -m electra_tf.run_pretraining. Nothing of
them is imported before the verb is known.
"""

import os
import runpy
import sys
from collections.abc import Sequence

import electra_tf
from electra_tf import errors, packaged
from electra_tf.command_line import arguments

PROG = "electra-tf"
# Verb -> a module, or a script.
VERBS = {
    "quickstart": "tools/quickstart/run_quickstart.py",
    "build-vocab": "tools/build_vocab.py",
    "build-data": "tools/build_pretraining_dataset.py",
    "check-data": "tools/check_data.py",
    "plan": "tools/plan_run.py",
    "pretrain": "electra_tf.run_pretraining",
    "adapt": "electra_tf.adapt",
    "finetune": "electra_tf.run_finetuning",
    "convert": "tools/convert_checkpoint.py",
    "export": "tools/export_saved_model.py",
    "serve": "electra_tf.serving.local_server",
    "predict": "electra_tf.predict",
    "detect": "electra_tf.detect",
    "score": "electra_tf.score",
    "flops": "tools/flops_computation.py",
}


def main(argv: Sequence[str]) -> int:
    """Becomes the door of a verb, as Python's own command line would.

    Args:
      argv: A verb and what it takes; without the command's own name.

    Returns:
      The exit code, unless the door ends the process with its own.
    """
    verb, *rest = argv or ["--help"]
    if verb in ("-h", "--help", "help"):
        width = max(map(len, VERBS))
        lines = [f"  {name:{width}}  {first_line(name)}" for name in VERBS]
        text = "\n".join([f"{PROG} VERB [flags]", "", *lines])
        text += f"\n\n{PROG} VERB --help has the flags of each.\n"
        code = 0 if argv else arguments.EXIT_USAGE
        return arguments.written(PROG, code, text)
    if verb == "--version":
        version = f"electra_tf {electra_tf.__version__}\n"
        return arguments.written(PROG, text=version)
    door = VERBS.get(verb.replace("_", "-"))
    if not door:
        hint = errors.did_you_mean(verb, VERBS)
        line = f"error: Unknown verb {verb!r}.{hint} (see {PROG} --help)"
        arguments.say(PROG, line)
        return arguments.EXIT_USAGE
    sys.argv = [door, *rest]
    if door.endswith(".py"):
        path = packaged.door(door)
        # Scripts import those beside them.
        sys.path.insert(0, str(path.parent))
        runpy.run_path(str(path), run_name="__main__")
    else:
        # With `import` in a gin file a run takes a user's own modules.
        sys.path.insert(0, os.getcwd())
        runpy.run_module(door, run_name="__main__", alter_sys=True)
    return 0


def first_line(verb: str) -> str:
    """What a door says of itself."""
    with packaged.door(VERBS[verb]).open(encoding="utf-8") as file:
        return file.readline().strip().removeprefix('"""')
