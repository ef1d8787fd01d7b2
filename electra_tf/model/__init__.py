"""Networks, losses, cost: tensors in, tensors out; knows no files."""
