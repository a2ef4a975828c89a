"""Takes a few members out of a published wheel, without downloading the rest of it.

python3 wheel_members.py REQUIREMENT FOLDER PATTERN...

pip names the wheel's address. Its table of contents is read by HTTP ranges, then the members that match a pattern.
"""

import fnmatch
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.request import Request, urlopen

TIMEOUT = 30
# Bytes fetched at once, at least.
STEP = 1 << 20


def address(requirement):
    """The address of the wheel, as pip would install it on Linux."""
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "--only-binary", ":all:"]
    pip += ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", str(TIMEOUT), "--report", "-", requirement]
    report = subprocess.run(pip, capture_output=True, text=True, check=False)
    if report.returncode:
        sys.exit(f"pip finds no wheel of {requirement}: {report.stderr.strip()}")
    return json.loads(report.stdout)["install"][0]["download_info"]["url"]


class RemoteFile:
    """A file behind an address that answers ranges, as zipfile reads it."""

    def __init__(self, url):
        self.url, self.at, self.start, self.held = url, 0, 0, b""
        with urlopen(Request(url, method="HEAD"), timeout=TIMEOUT) as answer:
            self.size = int(answer.headers["Content-Length"])

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def read(self, count=-1):
        end = self.size if count < 0 else min(self.at + count, self.size)
        if not self.start <= self.at <= end <= self.start + len(self.held):
            last = min(max(end, self.at + STEP), self.size) - 1
            asked = Request(self.url, headers={"Range": f"bytes={self.at}-{last}"})
            with urlopen(asked, timeout=TIMEOUT) as answer:
                if answer.status != 206:
                    sys.exit("the registry does not answer ranges")
                self.start, self.held = self.at, answer.read()
        piece = self.held[self.at - self.start : end - self.start]
        self.at = end
        return piece


def main():
    requirement, folder, *patterns = sys.argv[1:]
    with zipfile.ZipFile(RemoteFile(address(requirement))) as wheel:
        found = [name for name in wheel.namelist() if any(fnmatch.fnmatchcase(name, one) for one in patterns)]
        for member in sorted((wheel.getinfo(name) for name in found), key=lambda member: member.header_offset):
            path = Path(folder, member.filename)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wheel.read(member))
    print(len(found), "members")


if __name__ == "__main__":
    main()
