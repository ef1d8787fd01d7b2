"""What stands beside TFRecords: names that builders and readers agree on."""

MANIFEST = "manifest.json"
# Of the manifest's content.
MANIFEST_VERSION = 2
# Appended to the output folder's name, for the documents held out of it.
HELDOUT_SUFFIX = "_heldout"
