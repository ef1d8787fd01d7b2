"""An ELECTRA on disk, in any format."""
