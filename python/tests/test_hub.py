"""Pulling from a real server, from a server that sends other bytes than it announced, and without a server."""

from __future__ import annotations

import contextlib
import errno
import http.server
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import torch_diode
from torch_diode import DiodeError, hub, models
from torch_diode import __main__ as command
from workspace import MODEL, ROOT

MODEL_DIGEST = torch_diode.Model.load(MODEL).digest


@pytest.fixture
def server(diode_server: str, tmp_path: Path) -> Iterator[str]:
    """A real server with the released models and data."""
    folder = tmp_path / "server"
    folder.mkdir()
    subprocess.run([diode_server, "admin", "seed", str(ROOT / "trained_models")], cwd=folder, check=True, capture_output=True)
    with serving(diode_server, folder) as address:
        yield address


@contextlib.contextmanager
def serving(diode_server: str, folder: Path) -> Iterator[str]:
    """The address of a server in a folder."""
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


def test_after_a_removal_the_model_before_is_pulled(diode_server: str, tmp_path: Path) -> None:
    folder, database = tmp_path / "server", tmp_path / "server" / "diode.db"
    models_of = tmp_path / "seed" / "matmul" / "nvidia-h200"
    (models_of / "data").mkdir(parents=True)
    folder.mkdir()
    first = MODEL.read_bytes()
    shutil.copy(MODEL.parent / "data" / "h200-mm-tf32-library.msgpack.zst", models_of / "data")

    def admin(*words: str) -> str:
        said = subprocess.run([diode_server, "admin", *words], cwd=folder, check=True, capture_output=True, text=True)
        return said.stdout

    # The second stands for a model that was trained on the upload.
    for content in (first, first.replace(b"NVIDIA H200", b"NVIDIA h200", 1)):
        (models_of / MODEL.name).write_bytes(content)
        admin("seed", str(tmp_path / "seed"))
    with contextlib.closing(sqlite3.connect(database)) as store, store:
        [upload] = store.execute("SELECT id FROM uploads").fetchone()
        store.execute("INSERT INTO model_uploads SELECT id, ? FROM models WHERE state = 'published'", [upload])
    with serving(diode_server, folder) as address:
        assert hub.pull("nvidia-h200", server=address).digests["model"] != MODEL_DIGEST
        admin("remove", upload, "--reason", "made up")
        assert hub.pull("nvidia-h200", server=address, table=False).digests["model"] == MODEL_DIGEST


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


def refused(server: str) -> str:
    """What `pull` says on one line when it fails, in Python and on the command line."""
    with pytest.raises(DiodeError) as caught:
        hub.pull("nvidia-h200", server=server)
    assert "\n" not in str(caught.value)
    assert command.main(["pull", "nvidia-h200", "--server", server]) == 1
    return str(caught.value)


PAGE = b"<!DOCTYPE html>\n<html>Sign in to the network</html>"
DOWNLOAD = "/api/v1/models/0123456789abcdef/download"


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ({}, "/api/v1/models?hardware=nvidia-h200 answered 404; is this the address of a Diode server?"),
        ({"/api/v1/models": PAGE}, "got `<!DOCTYPE html> <html>Sign in to the network</html>`, expected a list of models"),
        ({"/api/v1/models": b"\xff\x00"}, "expected a list of models"),
        ({"/api/v1/models": b"{}"}, "got `{}`, expected a list of models"),
        ({"/api/v1/models": b'["one"]'}, "expected a list of models"),
        ({"/api/v1/models": b'[{"id": 3, "digest": "", "created_at": ""}]'}, "expected a list of models"),
        ({"/api/v1/models": listing()}, "/download answered 404"),
        ({"/api/v1/models": listing(), DOWNLOAD: PAGE}, "it was damaged or changed"),
        (
            {"/api/v1/models": listing(), DOWNLOAD: MODEL.read_bytes(), "/api/v1/tables/nvidia-h200.json": PAGE},
            "/api/v1/tables/nvidia-h200.json: got no table (",
        ),
    ],
)
def test_what_is_no_answer_of_a_server_is_one_line(
    replies: dict[str, bytes], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stub(replies) as address:
        said = refused(address)
    assert expected in said
    assert capsys.readouterr().err == f"error: {said}\n"
    assert not hub.cache_folder().exists(), "nothing is kept"


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n[", b""])
def test_what_does_not_speak_http_or_breaks_off_cannot_be_reached(greeting: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.recv(65536)
                connection.sendall(greeting)
                connection.close()

    threading.Thread(target=answer, daemon=True).start()
    try:
        assert "and nothing was pulled before" in refused(f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("server", ["http://exa mple", "http://127.0.0.1:port", "ftp//x", "http://["])
def test_what_is_no_address_is_one_line(server: str) -> None:
    assert "expected an address such as" in refused(server) or "cannot be reached" in refused(server)


def test_a_full_disk_leaves_nothing_half_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    replies = {"/api/v1/models": listing(), DOWNLOAD: MODEL.read_bytes()}
    with stub(replies) as address:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            assert "No space left on device; pulled files are kept there, and DIODE_CACHE_DIR" in refused(address)
        assert [path for path in hub.cache_folder().rglob("*") if path.is_file()] == []
        assert hub.pull("nvidia-h200", server=address).model is not None, "it goes on where there is room again"


def test_a_cache_folder_that_cannot_be_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("DIODE_CACHE_DIR", str(file / "cache"))
    with stub({"/api/v1/models": listing(), DOWNLOAD: MODEL.read_bytes()}) as address:
        assert f"{file}/cache/hub/nvidia-h200: Not a directory; pulled files are kept there" in refused(address)
    assert hub.cached_models() == []
    monkeypatch.delenv("DIODE_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert "this user has no home folder for pulled files" in refused("http://127.0.0.1:9")
    assert models.available() or torch_diode.DISTRIBUTION == "torch-diode-lib"
