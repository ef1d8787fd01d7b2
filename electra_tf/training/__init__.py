"""Model + loss + batches -> trained variables; knows no data."""
