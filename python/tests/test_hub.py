"""Pulling from a real server, from a server that sends other bytes than it announced, and without a server."""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import torch_diode
from torch_diode import DiodeError, hub, models
from workspace import MODEL, ROOT

MODEL_DIGEST = torch_diode.Model.load(MODEL).digest


@pytest.fixture
def server(diode_server: str, tmp_path: Path) -> Iterator[str]:
    """A real server with the released models and data."""
    folder = tmp_path / "server"
    folder.mkdir()
    subprocess.run([diode_server, "admin", "seed", str(ROOT / "trained_models")], cwd=folder, check=True, capture_output=True)
    child = subprocess.Popen(
        [diode_server, "serve", "--listen", "127.0.0.1:0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        line = next(line for line in child.stdout if "listening on " in line)
        threading.Thread(target=lambda: list(child.stdout), daemon=True).start()
        yield line.split("listening on ")[1].strip()
    finally:
        child.kill()
        child.wait()


@contextlib.contextmanager
def stub(replies: dict[str, bytes]) -> Iterator[str]:
    """A server with these replies and no others."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = replies.get(self.path.split("?")[0])
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write(body or b"{}")

        def log_message(self, *arguments: object) -> None: ...

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}"
    finally:
        listener.shutdown()
        listener.server_close()


def listing(**changes: str) -> bytes:
    return json.dumps(
        [{"id": "0123456789abcdef", "created_at": "2027-01-01T00:00:00Z", "digest": MODEL_DIGEST, **changes}]
    ).encode()


def test_a_real_server_gives_models_and_tables_that_stay_when_it_is_gone(server: str, caplog: pytest.LogCaptureFixture) -> None:
    pulled = hub.pull("NVIDIA H200", server=server + "/")
    assert (pulled.hardware, pulled.digests["model"]) == ("nvidia-h200", MODEL_DIGEST)
    assert pulled.model.read_bytes() == MODEL.read_bytes()
    assert len(torch_diode.Table.load(pulled.table)) > 100
    offline = hub.pull("nvidia-h200", server="http://127.0.0.1:9")
    assert offline == pulled
    [warning] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "http://127.0.0.1:9" in warning and "what was pulled before is used" in warning
    assert hub.pull("nvidia-h200") == pulled, "no server named"
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1, "it was not asked for"
    origins = {listed.model.hardware.slug: listed.origin for listed in models.available()}
    assert origins["nvidia-h200"] == "hub", "before the one that is inside"
    torch_diode.install(model=pulled.model, table=pulled.table)
    with pytest.raises(DiodeError, match="has no model of nvidia-a100"):
        hub.pull("nvidia-a100", server=server)


def test_bytes_that_are_not_what_was_announced_are_refused() -> None:
    other = MODEL.read_bytes()[:-1] + b"x"
    replies = {"/api/v1/models": listing(), "/api/v1/models/0123456789abcdef/download": other}
    with stub(replies) as address, pytest.raises(DiodeError, match=f"expected {MODEL_DIGEST}; it was damaged or changed"):
        hub.pull("nvidia-h200", server=address)
    assert hub.cached_models() == []


def test_a_server_without_timings_gives_the_model_alone() -> None:
    replies = {"/api/v1/models": listing(), "/api/v1/models/0123456789abcdef/download": MODEL.read_bytes()}
    with stub(replies) as address:
        assert hub.pull("nvidia-h200", server=address).table is None
        with pytest.raises(DiodeError, match="got a model of nvidia-h200, expected one of nvidia-h100"):
            hub.pull("nvidia-h100", server=address)


def test_the_published_model_is_pulled_though_a_newer_one_is_there() -> None:
    newer = json.loads(listing(id="fedcba9876543210", created_at="2027-02-01T00:00:00Z", state="unpublished"))
    listed = json.dumps(newer + json.loads(listing(state="published"))).encode()
    replies = {"/api/v1/models": listed, "/api/v1/models/0123456789abcdef/download": MODEL.read_bytes()}
    with stub(replies) as address:
        assert hub.pull("nvidia-h200", server=address).digests["model"] == MODEL_DIGEST


def test_a_model_that_is_not_published_is_not_pulled() -> None:
    replies = {"/api/v1/models": listing(state="unpublished")}
    with stub(replies) as address, pytest.raises(DiodeError, match="has published no model of nvidia-h200"):
        hub.pull("nvidia-h200", server=address)


def test_a_cached_file_that_changed_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    replies = {"/api/v1/models": listing(), "/api/v1/models/0123456789abcdef/download": MODEL.read_bytes()}
    with stub(replies) as address:
        pulled = hub.pull("nvidia-h200", server=address)
    pulled.model.write_bytes(b"changed")
    assert hub.cached_models() == []
    assert "pull it again" in caplog.text
    with pytest.raises(DiodeError, match="and nothing was pulled before"):
        hub.pull("nvidia-h200", server="http://127.0.0.1:9")


def test_a_text_that_is_no_address_is_refused() -> None:
    with pytest.raises(DiodeError, match="expected an address such as http://127.0.0.1:8080"):
        hub.pull("nvidia-h200", server="localhost")
