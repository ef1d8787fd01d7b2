"""What the wheel holds; wheel_proof.py runs it."""

import ast
import configparser
import email
import re
import subprocess
import sys
import zipfile

import pytest

from tests import helpers
from tests.packaging import wheels

INSTALLED_FOLDERS = ("gin", "tools")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    with zipfile.ZipFile(wheels.build(tmp_path_factory.mktemp("w"))) as found:
        yield found


def test_holds_every_file(wheel):
    expected = set()
    for top in ("electra_tf", *INSTALLED_FOLDERS):
        for path in (helpers.ROOT / top).rglob("*"):
            name = path.relative_to(helpers.ROOT).as_posix()
            if path.is_file() and "__pycache__" not in name:
                inside = top in INSTALLED_FOLDERS
                expected.add(f"electra_tf/{name}" if inside else name)
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == expected
    assert "electra_tf/gin/experiments/tiny.gin" in held
    # It would hide gin-config, or make scripts modules.
    for folder in INSTALLED_FOLDERS:
        assert f"electra_tf/{folder}/__init__.py" not in held


def read(wheel, name):
    (path,) = (n for n in wheel.namelist() if n.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


def test_has_the_command(wheel):
    found = configparser.ConfigParser()
    found.read_string(read(wheel, "entry_points.txt"))
    assert dict(found["console_scripts"]) == {
        "electra-tf": "electra_tf.__main__:main"
    }


# Module that is imported -> the distribution that has it.
_OTHER_NAMES = {
    "absl": "absl-py",
    "gin": "gin-config",
    "official": "tf-models-official",
    "google": "protobuf",
    "sklearn": "scikit-learn",
    "tensorflow_serving": "tensorflow-serving-api",
    "apache_beam": "apache-beam",
    "yaml": "pyyaml",
}
# Imported where a user has them: their absence is said, or made up for.
_OF_THE_USER = {"ai-edge-litert"}
# Python's from 3.14 on, and TensorFlow's.
_OF_OTHERS = {"compression", "protobuf"}


def test_says_for_which_python_it_is(wheel):
    metadata = email.message_from_string(read(wheel, "METADATA"))
    assert set(metadata["Requires-Python"].split(",")) == {">=3.11", "<3.14"}


def test_make_says_so_as_well(tmp_path):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n[ $1 = --version ] && echo Python 3.14.0\n")
    python.chmod(0o755)
    result = subprocess.run(
        ["make", f"PYTHON3={python}", f"VENV={tmp_path}", "quickstart"],
        cwd=helpers.ROOT,
        capture_output=True,
        text=True,
    )
    line = "Expected Python 3.11 to 3.13, received Python 3.14.0, for which"
    assert result.returncode and result.stderr.startswith(line)


def test_declares_what_is_imported(wheel):
    declared = {
        re.match(r"[\w.-]+", line).group().lower()
        for line in email.message_from_string(read(wheel, "METADATA")).get_all(
            "Requires-Dist"
        )
    }
    imported = set()
    for path in (helpers.ROOT / "electra_tf").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    imported -= {*sys.stdlib_module_names, "electra_tf"}
    needed = {
        _OTHER_NAMES.get(name, name.replace("_", "-")) for name in imported
    }
    assert needed - _OF_THE_USER - _OF_OTHERS <= declared
    assert "keras-hub" in declared
