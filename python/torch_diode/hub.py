"""Pulls models and tables from a Diode server, once; they are checked by their digests and then available offline.

>>> torch_diode.hub.cached_models()
[]
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.client
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
from .errors import DiodeTypeError, DiodeValueError
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
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_diode"
    except RuntimeError:
        raise DiodeError("this user has no home folder for pulled files; DIODE_CACHE_DIR names another") from None


def cached_models() -> list[Path]:
    """Every pulled model whose bytes still match the digest in its index."""
    try:
        indexes = sorted(cache_folder().glob("hub/*/index.json"))
        found = [_cached(index.parent) for index in indexes]
    except (OSError, DiodeError):
        return []
    return [pulled.model for pulled in found if pulled is not None and pulled.model is not None]


def pull(hardware: str, *, server: str | None = None, table: bool = True) -> Pulled:
    """Pulls the published model for a kind of hardware, and its table.

    If the server cannot be reached, the files that were pulled before are returned, with a warning. ``server`` may also
    come from ``DIODE_SERVER``. If neither names one, they are returned without a warning.

    >>> torch_diode.hub.pull("nvidia-h200", server="http://127.0.0.1:9")
    Traceback (most recent call last):
    torch_diode.DiodeError: nvidia-h200: http://127.0.0.1:9/... cannot be reached (...), and nothing was pulled before
    """
    known = Hardware.find(hardware)
    if known is None and not hardware.strip():
        raise DiodeValueError("hardware: got ``, expected a device's name or a slug such as nvidia-h200")
    slug = known.slug if known is not None else hardware
    folder = cache_folder() / "hub" / urllib.parse.quote(slug, safe="")
    address = server if server is not None else os.environ.get("DIODE_SERVER") or None
    address = None if address is None else _address(address)
    try:
        if address is None:
            raise _Unreachable('no server was named; give server="http://…" or set DIODE_SERVER')
        return _fetch(address, slug, folder, table)
    except _Unreachable as unreachable:
        before = _cached(folder)
        if before is None:
            raise DiodeError(f"{slug}: {unreachable}, and nothing was pulled before") from None
        level = logging.WARNING if address else logging.INFO
        logger.log(level, "%s: %s; what was pulled before is used", slug, unreachable)
        return before


def _address(server: str) -> str:
    """The address of a server without the slash at its end."""
    if not isinstance(server, str):
        raise DiodeTypeError(f"server: got {server!r:.60}, expected an address such as http://127.0.0.1:8080")
    try:
        parts = urllib.parse.urlsplit(server)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and server.isprintable()
    except ValueError:
        fits = False
    if not fits:
        raise DiodeValueError(f"server: got {server!r:.80}, expected an address such as http://127.0.0.1:8080")
    return server.rstrip("/")


class _Unreachable(DiodeError):
    """The server does not answer. The cache may have the files."""


def _fetch(address: str, slug: str, folder: Path, table: bool) -> Pulled:
    listed = _listed(f"{address}/api/v1/models?hardware={urllib.parse.quote(slug)}")
    if not listed:
        raise DiodeError(f"{address} has no model of {slug}; {address}/api/v1/models lists what there is")
    chosen = _published(listed)
    if chosen is None:
        raise DiodeError(f"{address} has published no model of {slug}; {address}/api/v1/models lists what there is")
    content = _get(f"{address}/api/v1/models/{urllib.parse.quote(chosen['id'])}/download")
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


def _listed(url: str) -> list[dict[str, Any]]:
    """The models that a server lists. What is no such list comes from something else than a Diode server."""
    content = _get(url)
    try:
        listed = json.loads(content)
        fits = all(isinstance(model[name], str) for model in listed for name in ("id", "digest", "created_at"))
    except (ValueError, TypeError, KeyError, RecursionError):
        fits = False
    if not fits or not isinstance(listed, list):
        begins = " ".join(content[:60].decode(errors="replace").split())
        raise DiodeError(f"{url}: got `{begins}`, expected a list of models; is this the address of a Diode server?")
    return listed


def _published(listed: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The published model. If the server does not state which one that is, the newest."""
    published = [model for model in listed if model.get("state") == "published"]
    unstated = [model for model in listed if "state" not in model]
    return max(published or unstated, key=lambda model: model["created_at"], default=None)


def _table(address: str, slug: str) -> bytes | None:
    """The table. A server has one as soon as timings were uploaded to it. None if it has none."""
    url = f"{address}/api/v1/tables/{urllib.parse.quote(slug)}.json"
    try:
        text = _get(url)
    except _NotFound:
        return None
    try:
        Table.from_json(text.decode())
    except (ValueError, DiodeError) as error:
        raise DiodeError(f"{url}: got no table ({error})") from None
    return text


class _NotFound(DiodeError):
    """The server answers, but does not have the file."""


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as reply:
            content: bytes = reply.read(_MOST_BYTES + 1)
            announced = reply.headers.get("Content-Length", "")
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise _NotFound(f"{url} answered 404; is this the address of a Diode server?") from None
        if error.code >= 500:
            raise _Unreachable(f"{url} answered {error.code}") from None
        raise DiodeError(f"{url} answered {error.code}: {_beginning(error)}") from None
    except (ValueError, http.client.InvalidURL) as error:
        raise DiodeError(f"server: {error}; expected an address such as http://127.0.0.1:8080") from None
    except http.client.HTTPException as error:
        raise _Unreachable(f"{url} broke off or does not speak HTTP ({type(error).__name__})") from None
    except OSError as error:
        raise _Unreachable(f"{url} cannot be reached ({getattr(error, 'reason', error)})") from None
    if len(content) > _MOST_BYTES:
        raise DiodeError(f"{url}: got more than {_MOST_BYTES} bytes")
    if announced.isdecimal() and len(content) < int(announced):
        raise _Unreachable(f"{url} broke off after {len(content)} of {announced} bytes")
    return content


def _beginning(error: urllib.error.HTTPError) -> str:
    """The beginning of an error's text, in one line."""
    try:
        return " ".join(error.read(500).decode(errors="replace").split())
    except (OSError, http.client.HTTPException):
        return str(error.reason)


def _check(content: bytes, digest: str, what: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise DiodeError(f"{what}: its bytes have the digest {found}, expected {digest}; it was damaged or changed")


def _store(folder: Path, slug: str, files: dict[str, tuple[str, bytes]]) -> Pulled:
    """Writes files, and then the index that names them. So a crash leaves either the old state or the new one."""
    index: dict[str, Any] = {"hardware": slug, "files": {}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, (name, content) in files.items():
            digest = hashlib.sha256(content).hexdigest()
            stored = f"{digest[:16]}-{name}"
            _replace(folder / stored, content)
            index["files"][kind] = {"name": stored, "digest": digest}
        _replace(folder / "index.json", json.dumps(index, indent=2).encode())
    except OSError as error:
        raise DiodeError(
            f"{folder}: {error.strerror}; pulled files are kept there, and DIODE_CACHE_DIR names another folder"
        ) from None
    pulled = _cached(folder)
    if pulled is None:
        raise DiodeError(f"{folder}: what was just written cannot be read; does another program change it?")
    return pulled


def _replace(path: Path, content: bytes) -> None:
    descriptor, written = tempfile.mkstemp(dir=path.parent, prefix=".pull-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(written, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(written)
        raise


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
