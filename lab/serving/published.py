"""Takes the published files of an H200 out of a collection of all, for the named rivals and the space of tiles.

python3 published.py COLLECTION.json OUT.json

The collection is {"files": [{"project", "kind", "folder", "name", "body"}]}, as read from the wheels of vLLM and SGLang.
"""

import json
import re
import sys
from pathlib import Path

NAME = re.compile(
    r"^E=(\d+),N=(\d+),device_name=([^,]*?)(?:,dtype=([a-z0-9_]+?))?(?:,block_shape=\[(\d+), ?(\d+)\])?"
    r"(,per_channel_quant=True)?(,backend=flydsl)?(_down)?\.json$"
)


def main():
    found = []
    for one in json.loads(Path(sys.argv[1]).read_text())["files"]:
        if one["kind"] != "fused_moe":
            continue
        experts, inner, device, dtype, block, _, by_channel, other, down = NAME.match(one["name"]).groups()
        if (
            device != "NVIDIA_H200"
            or by_channel
            or other
            or down
            or dtype not in (None, "fp8_w8a8")
            or block not in (None, "128")
        ):
            continue
        body = {tokens: entry for tokens, entry in one["body"].items() if tokens.isdigit()}
        found.append({"project": one["project"], "folder": one["folder"].rsplit("/", 1)[-1], "E": int(experts), "N": int(inner),
                      "dtype": dtype, "block": block == "128", "body": body})  # fmt: skip
    Path(sys.argv[2]).write_text(json.dumps(found, separators=(",", ":")))
    print(len(found), "files")


if __name__ == "__main__":
    main()
