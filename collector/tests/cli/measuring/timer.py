#!/usr/bin/env python3
"""Stands in for a Python with torch, Triton and vLLM on a GPU: its times are made up.

The second config of a launch is a quarter faster than the first from 64 tokens on; below, all take the same time.
"""

import json
import os
import sys
import time


def say(**answer: object) -> None:
    print(json.dumps(answer), flush=True)


gpu = os.environ.get("GPU", "NVIDIA H200")
json.loads(sys.stdin.readline())
if gpu == "dies":
    sys.exit("ModuleNotFoundError: no torch")
if gpu == "none":
    say(refused="torch 2.11.0 sees no NVIDIA GPU")
    sys.exit()
name = "NVIDIA H200" if gpu == "refuses" else gpu
versions = {"torch": "2.11.0", "triton": "3.6.0"}
say(ready={"gpu": name, "versions": versions, "kernels": {"vllm": {"version": "0.33.0", "package": None}}})
for line in sys.stdin:
    request = json.loads(line)
    if gpu == "refuses":
        say(refused="too little memory")
        continue
    until = time.monotonic() + request["budget"]
    for batch in request["batches"]:
        time.sleep(float(os.environ.get("SLEEP", "0")))
        if time.monotonic() > until:
            break
        launches, places = [], [0, 0]
        for launch in batch["launches"]:
            stage = launch["stage"]
            us = 80.0 if batch["batch"] >= 64 and places[stage] == 1 else 100.0
            places[stage] += 1
            launches.append({"us": [us + 0.001 * (turn * 7 % 5) for turn in range(request["rounds"])]})
        say(compiled=[1, 2])
        say(timed={"batch": batch["batch"], "launches": launches})
    say(done={})
