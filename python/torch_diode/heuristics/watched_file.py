"""Files whose edits take effect without installing again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from .. import messages
from .._core import DiodeError


class WatchedFile:
    """A file that is read again after it has changed. If the new content is broken, the last good content stays."""

    def __init__(self, path: str | os.PathLike[str], read: Callable[[str], Any]) -> None:
        self._path = os.fspath(path)
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._stamp()
        self._content = read(self._path)

    def _stamp(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except (OSError, ValueError) as error:
            raise DiodeError(f"{self._path}: {getattr(error, 'strerror', error)}") from None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def content(self) -> Any:
        with self._lock:
            try:
                stamp = self._stamp()
                if stamp != self._seen:
                    self._seen = stamp
                    self._content = self._read(self._path)
            except DiodeError as error:
                messages.log_once(f"{self._path} {error}", logging.WARNING, "%s; the last good content stays in use", error)
            return self._content
