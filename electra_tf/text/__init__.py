"""Text -> token ids: the one tokenizer, its vocabulary and its tables."""
