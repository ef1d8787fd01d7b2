"""What columns of texts are usually called, in files of any task.

Imports nothing: for commands that start quickly, too.
"""

TEXT_PAIRS = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
)
TEXT_NAMES = (
    *("text", "sentence", "document", "comment", "comments", "question"),
    *("review", "content", "tokens", "words", "title"),
)
NAMES_OF_TEXTS = frozenset(
    name for names in (*TEXT_PAIRS, TEXT_NAMES) for name in names
)
