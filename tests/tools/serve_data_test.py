"""Tests of tools/serve_data.py."""

import signal
import socket

import pytest

from tests import helpers
from tools import serve_data


def test_a_port_that_is_taken(capfd):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve_data.main([f"--port={port}"]) == 1
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith("serve_data: error: Cannot serve at port ")


@pytest.mark.dear
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(number):
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    service = helpers.start("-m", "tools.serve_data", f"--port={port}")
    try:
        assert service.stdout.readline().startswith("serving at grpc://")
        service.send_signal(number)
        assert service.wait(timeout=30) == -number
    finally:
        service.kill()
        service.communicate()


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
