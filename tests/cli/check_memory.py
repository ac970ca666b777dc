#!/usr/bin/env python3
"""check_memory.py FILE PARAMETERS: does what `portico inspect --memory --json` says fit together?"""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        memory = json.load(file)
    for device in memory["devices"]:
        assert device["total"] == sum(device[k] for k in ("weights", "states", "arenas", "io")), device
    assert sum(d["total"] for d in memory["devices"]) == memory["held"] <= memory["peak"], "devices and session differ"
    for device in memory["devices"]:
        programs = [p for p in memory["programs"] if p["device"] == device["device"]]
        assert sum(p["arena"] for p in programs) == device["arenas"], "arenas"
        assert sum(p["io"] for p in programs) == device["io"], "inputs and outputs"
        # a program's weights are among those of the device, where their buffers may add padding
        assert all(p["weights"] <= device["weights"] for p in programs), "weights"
    for p in memory["programs"]:
        assert max(p["activations"], p["workspace"]) <= p["arena_lower_bound"] <= p["arena"], p
        assert p["arena_lower_bound"] <= p["activations"] + p["workspace"], p
        assert p["arena_lower_bound"] <= p["unplanned"], p
    assert sum(b["parameters"] * b["count"] for b in memory["blocks"]) == int(sys.argv[2]), "parameters"
    assert all(b["weights"] >= b["parameters"] // 2 for b in memory["blocks"]), "weights of blocks"


main()
