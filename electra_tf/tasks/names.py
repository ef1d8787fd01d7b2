"""What tasks and their kinds are called; imports nothing."""

# Tasks of questions. Of SQuAD's, whether they may have no answer; KorQuAD is
# SQuAD 1.1's Korean sister.
SQUAD_TASKS = {"squad": True, "squadv1": False, "korquad": False}
MRQA_TASKS = ("naturalqs", "newsqa", "searchqa", "triviaqa")

# Of files with labelled rows.
TASK_TYPES = ("classification", "multi_label", "regression", "tagging")
