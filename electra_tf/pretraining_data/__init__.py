"""A corpus -> TFRecords -> batches, a function of the step."""
