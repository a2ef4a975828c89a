"""`python -m torch_diode`: shows the status, pulls models, runs the `diode` program."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from . import hub, program
from ._core import DiodeError
from .predecessor.integrations import get_diode_status

_USAGE = """usage: python -m torch_diode status
       python -m torch_diode pull HARDWARE [--server URL]
       python -m torch_diode toolkit …      runs `diode …`"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words == ["status"]:
            print(json.dumps(get_diode_status(), indent=2))
            return 0
        if words[:1] == ["toolkit"]:
            return program.run(words[1:])
        if words[:1] == ["pull"] and (len(words) == 2 or (len(words) == 4 and words[2] == "--server")):
            pulled = hub.pull(words[1], server=words[3] if len(words) == 4 else None)
            print(f"{pulled.hardware}: {pulled.model}" + (f", {pulled.table}" if pulled.table else ""))
            return 0
    except DiodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(_USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
