"""Models and tables from a Diode server. They are fetched once, checked by their digests, and then available offline."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from ._core import DiodeError, Hardware, Model, Table
from .messages import logger

_TIMEOUT_S = 30
# The most bytes of a file. A model has some 50 KiB, and a table of 100,000 problems 220 MB.
_MOST_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class Pulled:
    """The cached files for a kind of hardware. Pass ``model`` and ``table`` to ``torch_diode.install``."""

    hardware: str
    model: Path | None
    table: Path | None
    digests: dict[str, str]


def cache_folder() -> Path:
    """The folder of pulled files: ``DIODE_CACHE_DIR``, or else the user's cache folder."""
    chosen = os.environ.get("DIODE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_diode"


def cached_models() -> list[Path]:
    """Every pulled model whose bytes still match the digest in its index."""
    try:
        indexes = sorted(cache_folder().glob("hub/*/index.json"))
        found = [_cached(index.parent) for index in indexes]
    except OSError:
        return []
    return [pulled.model for pulled in found if pulled is not None and pulled.model is not None]


def pull(hardware: str, *, server: str | None = None, table: bool = True) -> Pulled:
    """Pulls the published model for a kind of hardware, and its table.

    If the server cannot be reached, the files that were pulled before are returned, with a warning. ``server`` may also
    come from ``DIODE_SERVER``. If neither names one, they are returned without a warning.
    """
    known = Hardware.find(hardware)
    slug = known.slug if known is not None else hardware
    folder = cache_folder() / "hub" / urllib.parse.quote(slug, safe="")
    address = (server or os.environ.get("DIODE_SERVER") or "").rstrip("/")
    try:
        if not address:
            raise _Unreachable('no server was named; give server="http://…" or set DIODE_SERVER')
        return _fetch(address, slug, folder, table)
    except _Unreachable as unreachable:
        before = _cached(folder)
        if before is None:
            raise DiodeError(f"{slug}: {unreachable}, and nothing was pulled before") from None
        level = logging.WARNING if address else logging.INFO
        logger.log(level, "%s: %s; what was pulled before is used", slug, unreachable)
        return before


class _Unreachable(Exception):
    """The server does not answer. The cache may have the files."""


def _fetch(address: str, slug: str, folder: Path, table: bool) -> Pulled:
    listed = json.loads(_get(f"{address}/api/v1/models?hardware={urllib.parse.quote(slug)}")[0])
    if not listed:
        raise DiodeError(f"{address} has no model of {slug}; {address}/api/v1/models lists what there is")
    chosen = _published(listed)
    if chosen is None:
        raise DiodeError(f"{address} has published no model of {slug}; {address}/api/v1/models lists what there is")
    content, _ = _get(f"{address}/api/v1/models/{urllib.parse.quote(chosen['id'])}/download")
    _check(content, chosen["digest"], f"the model {chosen['id']} of {address}")
    model = Model.from_bytes(content)
    if model.hardware.slug != slug:
        raise DiodeError(f"{address}: got a model of {model.hardware.slug}, expected one of {slug}")
    files = {"model": ("model.safetensors", content)}
    if table:
        text = _table(address, slug)
        if text is not None:
            files["table"] = ("table.json", text)
    return _store(folder, slug, files)


def _published(listed: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The published model. If the server does not state which one that is, the newest."""
    published = [model for model in listed if model.get("state") == "published"]
    unstated = [model for model in listed if "state" not in model]
    return max(published or unstated, key=lambda model: str(model["created_at"]), default=None)


def _table(address: str, slug: str) -> bytes | None:
    """The table. A server has one as soon as timings were uploaded to it. None if it has none."""
    try:
        text, _ = _get(f"{address}/api/v1/tables/{urllib.parse.quote(slug)}.json")
    except _NotFound:
        return None
    Table.from_json(text.decode())
    return text


class _NotFound(Exception):
    """The server answers, but does not have the file."""


def _get(url: str) -> tuple[bytes, Any]:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as reply:
            content = reply.read(_MOST_BYTES + 1)
            headers = reply.headers
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise _NotFound(url) from None
        if error.code >= 500:
            raise _Unreachable(f"{url} answered {error.code}") from None
        raise DiodeError(f"{url} answered {error.code}: {error.read(500).decode(errors='replace')}") from None
    except (urllib.error.URLError, OSError) as error:
        raise _Unreachable(f"{url} cannot be reached ({getattr(error, 'reason', error)})") from None
    except ValueError as error:
        raise DiodeError(f"server: {error}; expected an address such as http://127.0.0.1:8080") from None
    if len(content) > _MOST_BYTES:
        raise DiodeError(f"{url}: got more than {_MOST_BYTES} bytes")
    return content, headers


def _check(content: bytes, digest: str, what: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise DiodeError(f"{what}: its bytes have the digest {found}, expected {digest}; it was damaged or changed")


def _store(folder: Path, slug: str, files: dict[str, tuple[str, bytes]]) -> Pulled:
    """Writes files, and then the index that names them. So a crash leaves either the old state or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {"hardware": slug, "files": {}}
    for kind, (name, content) in files.items():
        digest = hashlib.sha256(content).hexdigest()
        stored = f"{digest[:16]}-{name}"
        _replace(folder / stored, content)
        index["files"][kind] = {"name": stored, "digest": digest}
    _replace(folder / "index.json", json.dumps(index, indent=2).encode())
    pulled = _cached(folder)
    assert pulled is not None
    return pulled


def _replace(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".pull-", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def _cached(folder: Path) -> Pulled | None:
    """The files of a folder, if their bytes still match the digests in its index."""
    try:
        index = json.loads((folder / "index.json").read_bytes())
        paths = {kind: folder / entry["name"] for kind, entry in index["files"].items()}
        digests = {kind: entry["digest"] for kind, entry in index["files"].items()}
        for kind, path in paths.items():
            _check(path.read_bytes(), digests[kind], str(path))
        return Pulled(index["hardware"], paths.get("model"), paths.get("table"), digests)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    except DiodeError as error:
        logger.warning("%s; pull it again", error)
        return None
