"""`python -m torch_diode …` is `diode …`. Beside its commands it has `status`, which is the plug-in's, and `pull`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from . import hub, program
from ._core import DiodeError
from .compat.integrations import get_diode_status

_PULL = "usage: python -m torch_diode pull HARDWARE [--server URL]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words == ["status"]:
            print(json.dumps(get_diode_status(), indent=2))
            return 0
        if words[:1] == ["pull"]:
            return _pull(words[1:])
        # `toolkit` is the earlier name for the program's commands.
        program.become(words[1:] if words[:1] == ["toolkit"] else words)
    except DiodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _pull(words: Sequence[str]) -> int:
    if len(words) not in (1, 3) or words[0].startswith("-") or words[1:2] not in ([], ["--server"]):
        print(_PULL, file=sys.stderr)
        return 2
    pulled = hub.pull(words[0], server=words[2] if len(words) == 3 else None)
    print(f"{pulled.hardware}: {pulled.model}" + (f", {pulled.table}" if pulled.table else ""))
    return 0


def old_name() -> int:
    """Runs a command under the name that the program had: `torch-diode`."""
    print("torch-diode is now called diode; this name still works", file=sys.stderr)
    return main()


def tune() -> int:
    """Runs `diode tune`, as `diode-tune`."""
    return main(["tune", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
