"""Compressed streams, read as far as they are whole; no TensorFlow here."""

import contextlib
import functools
import io
import lzma
import zlib

_WINDOW_LOG = 31  # The largest of zstd, as of `zstd --long=31`.

# Of compressed data that are unpacked at once.
_CHUNK_BYTES = 64 << 10


class Decompressor(io.RawIOBase):
    """Reads a compressed stream as far as it is whole.

    Attributes:
      damage: What is wrong after that, if anything is.
      is_cut: Whether nothing is wrong but that it ends too early.
    """

    def __init__(self, stream, new_frame, errors):
        """Starts at the stream's position.

        Args:
          stream: The compressed bytes.
          new_frame: Makes an object with `decompress(data)`, `eof` and
            `unused_data`, for each of the frames that may follow one another.
          errors: What it raises on damaged data.
        """
        self.damage = ""
        self.is_cut = False
        self._stream = stream
        self._new_frame = new_frame
        self._errors = errors
        self._frame = None
        self._has_begun = False
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._output and not self.damage:
            data = b""
            if self._frame is not None and self._frame.eof:
                data = self._frame.unused_data
                self._frame = None
            data = data or self._stream.read(_CHUNK_BYTES)
            if not data:
                if self._frame is not None:
                    self.damage = "it ends too early"
                    self.is_cut = True
                break
            if self._frame is None:
                # Zeros between and after frames are padding.
                data = data.lstrip(b"\0") if self._has_begun else data
                if not data:
                    continue
                self._frame = self._new_frame()
                self._has_begun = True
            try:
                self._output = memoryview(self._frame.decompress(data))
            except self._errors as error:
                self.damage = str(error)
        num_bytes = min(len(buffer), len(self._output))
        buffer[:num_bytes] = self._output[:num_bytes]
        self._output = self._output[num_bytes:]
        return num_bytes


def decompressor(compression: str, stream) -> Decompressor:
    """Reads what is packed as "gzip", "xz" or "zstd".

    Raises:
      ValueError: If a package is missing that reads it.
    """
    if compression == "gzip":
        new_frame = functools.partial(zlib.decompressobj, 16 + zlib.MAX_WBITS)
        return Decompressor(stream, new_frame, zlib.error)
    if compression == "xz":
        return Decompressor(stream, lzma.LZMADecompressor, lzma.LZMAError)
    with contextlib.suppress(ImportError):
        # Python 3.14 has it.
        from compression import zstd

        options = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
        new_frame = functools.partial(zstd.ZstdDecompressor, options=options)
        return Decompressor(stream, new_frame, zstd.ZstdError)
    try:
        import zstandard
    except ImportError:
        raise ValueError(
            "Reading .zst files needs zstandard: pip install zstandard"
        ) from None
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG)
    return Decompressor(stream, unpacker.decompressobj, zstandard.ZstdError)
