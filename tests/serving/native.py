"""Builds and runs the C++ program beside this file."""

import pathlib
import shutil
import struct
import subprocess

import numpy as np
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import named_tensor_pb2

SOURCE = pathlib.Path(__file__).parent / "cpp" / "run_saved_model.cc"
_LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")


def compiler() -> str | None:
    """A C++ compiler, if there is one."""
    return shutil.which("g++") or shutil.which("clang++")


def build(folder: pathlib.Path) -> pathlib.Path:
    """Compiles against the headers and libraries of the installed package."""
    found = compiler()
    assert found
    program = folder / "run_saved_model"
    library_dir = tf.sysconfig.get_lib()
    subprocess.run(
        [
            found,
            *tf.sysconfig.get_compile_flags(),
            # The headers' unused functions name symbols that are not exported.
            *("-O1", "-w", "-ffunction-sections", "-Wl,--gc-sections"),
            str(SOURCE),
            *("-o", str(program)),
            # Sessions and kernels register themselves: nothing names them.
            "-Wl,--no-as-needed",
            f"-L{library_dir}",
            *(f"-l:{name}" for name in _LIBRARIES),
            f"-Wl,-rpath,{library_dir}",
        ],
        check=True,
    )
    return program


def op_libraries() -> list[str]:
    """The op libraries of tensorflow_text."""
    folder = pathlib.Path(tensorflow_text.__file__).parent / "python" / "ops"
    return sorted(map(str, folder.glob("*.so")))


def ask(
    program: pathlib.Path,
    version: str,
    signature: str,
    inputs: dict[str, np.ndarray],
    folder: pathlib.Path,
) -> dict[str, np.ndarray]:
    """Answers of the C++ runtime to named inputs: output name -> values.

    `version` is the path of one version of a SavedModel; the request and the
    answer are files in `folder`.
    """
    request, answer = folder / "request", folder / "answer"
    with open(request, "wb") as f:
        for name, value in inputs.items():
            named = named_tensor_pb2.NamedTensorProto(
                name=name, tensor=tf.make_tensor_proto(value)
            )
            content = named.SerializeToString()
            f.write(struct.pack("<I", len(content)) + content)
    command = [program, version, signature, request, answer, *op_libraries()]
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    found = {}
    content = answer.read_bytes()
    while content:
        (size,) = struct.unpack("<I", content[:4])
        named = named_tensor_pb2.NamedTensorProto.FromString(
            content[4 : 4 + size]
        )
        found[named.name] = tf.make_ndarray(named.tensor)
        content = content[4 + size :]
    return found
