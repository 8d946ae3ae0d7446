#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plugs a guest's memory in and out while it runs.

    hotplug.py SOCKET [LOG TEXT]    QEMU's monitor (QMP), whose device "plug" is a virtio-mem;
                                    it begins when TEXT is in LOG, the guest's console

How large the memory should be is changed every few seconds; the guest adds or removes
blocks of it, and with the last use of a block its struct pages go. It ends with QEMU, and
says how often the guest has plugged all of it in, and how often it was rid of all.
"""
import json
import random
import socket
import sys
import time

DEVICE = "/machine/peripheral/plug"
SIZES = (0, 256 << 20, 1 << 30)


class Monitor:
    def __init__(self, path):
        for _ in range(300):
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                time.sleep(0.1)
        else:
            sys.exit("no monitor")
        self.lines = self.socket.makefile("rw")
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while line := self.lines.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise ValueError(answer["error"]["desc"])
            if "return" in answer:
                return answer["return"]
        raise EOFError

    def size(self):
        return self.ask("qom-get", path=DEVICE, property="size")

    def want(self, size):
        self.ask("qom-set", path=DEVICE, property="requested-size", value=size)


def is_in(log, text):
    with open(log, errors="replace") as lines:
        return any(text in line for line in lines)


def main(path, log=None, text=""):
    dice = random.Random(1)
    wanted = refused = 0
    times = dict.fromkeys(SIZES, 0)
    try:
        monitor = Monitor(path)
        # So that the guest has found the device.
        time.sleep(20)
        while log and not is_in(log, text):
            monitor.size()
            time.sleep(1)
        while True:
            size = dice.choice([one for one in SIZES if one != wanted])
            try:
                monitor.want(size)
            except ValueError:
                # It is booting, or going down.
                refused += 1
                time.sleep(2)
                continue
            wanted = size
            for _ in range(dice.choice((5, 20, 60))):
                time.sleep(0.25)
                if monitor.size() == wanted:
                    times[wanted] += 1
                    break
            time.sleep(dice.random() * 2)
    except (EOFError, OSError, json.JSONDecodeError):
        pass
    said = ", ".join(f"{size >> 20} MiB {count} times" for size, count in times.items())
    print(f"memory plugged: {said} reached; {refused} requests refused")
    return 0 if times[0] and times[SIZES[-1]] else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
