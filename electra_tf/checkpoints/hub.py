"""Repositories of the Hugging Face Hub, by their handles."""

import os
import re

from electra_tf import errors

HANDLE = "hf://"
_HANDLE = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@(.+))?", re.ASCII)

# Large files of a repository that no reader here opens.
_NOT_READ = (
    *("*.msgpack", "*.onnx", "*.onnx_data", "*.ot", "*.tflite", "*.gguf"),
    *("*.mlmodel", "*.mlpackage/*", "*openvino*", "tf_model*.h5"),
    *("optimizer.pt", "scheduler.pt", "events.out.tfevents.*"),
)


def local_path(path: str | os.PathLike) -> str:
    """Where a checkpoint is on disk; that of a handle, once it is there.

    Args:
      path: Of a file or folder, or "hf://owner/name", with "@revision" behind
        it where it is not the main one. Hugging Face's cache is asked first
        where there is no connection, or HF_HUB_OFFLINE=1.

    Raises:
      CheckpointError: If it is neither in the cache nor to be had.
    """
    path = os.path.expanduser(path)
    if not path.startswith(HANDLE):
        return path
    match = _HANDLE.fullmatch(path)
    if match is None:
        raise errors.CheckpointError(
            "Expected a handle like 'hf://owner/name' or "
            f"'hf://owner/name@revision'. Received: {path!r}"
        )
    import huggingface_hub

    try:
        return huggingface_hub.snapshot_download(
            match[1],
            revision=match[2],
            ignore_patterns=list(_NOT_READ),
            library_name="electra_tf",
        )
    except Exception as error:  # It raises what its HTTP library does, too.
        # A model that others have loaded may well be there without the rest of
        # its repository; whoever reads it says what is missing.
        partial = getattr(error, "snapshot_path", None)
        if partial is not None:
            return partial
        reason = str(error).strip().split("\n")[0] or "no reason"
        raise errors.CheckpointError(
            f"Expected {path} on the Hugging Face Hub or in its cache. "
            f"Received: {type(error).__name__}: {reason}"
        ) from None


def is_handle(path: str) -> bool:
    """Whether this is how a repository of the Hub is called."""
    return _HANDLE.fullmatch(path) is not None
