"""Warnings that point at the user's line, however deep they are given."""

import contextlib
import os
import sys
import types
import typing
import warnings

import keras

import electra_tf


def _folder(module: types.ModuleType) -> str:
    return os.path.join(os.path.dirname(typing.cast(str, module.__file__)), "")


# Calls on the way from the user's line to the warning.
_BETWEEN = (_folder(electra_tf), _folder(keras), contextlib.__file__)


def warn(message: str) -> None:
    """Warns of something at the line that called this package.

    Args:
      message: What there is to know.
    """
    level = 1
    frame: types.FrameType | None = sys._getframe()
    while frame and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
