"""Tests of tools/serve_data.py."""

import socket

import pytest

from tools import serve_data


def test_a_port_that_is_taken(capfd):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve_data.main([f"--port={port}"]) == 1
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith("serve_data: error: Cannot serve at port ")


def test_a_worker_address_without_a_port(capsys):
    assert serve_data.main(["--worker-address=host"]) == 1
    assert capsys.readouterr().err == (
        "serve_data: error: Expected --worker-address of the form host:port. "
        "Received: 'host'.\n"
    )


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_is_none(port, capsys):
    """It would be taken for another one."""
    with pytest.raises(SystemExit):
        serve_data.main([f"--port={port}"])
    assert "expected a port from 1 to 65535" in capsys.readouterr().err
    assert serve_data.main([f"--worker-address=localhost:{port}"]) == 1
    assert f"Received: 'localhost:{port}'" in capsys.readouterr().err
