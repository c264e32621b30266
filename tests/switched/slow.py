"""Keeps all that leaves by an interface for a while: what netem does where a kernel has it.

    slow.py INTERFACE MILLISECONDS

What is to leave is led here, and sent past the queue of the interface, and so past what leads it here.
"""

import collections
import select
import socket
import subprocess
import sys
import time

ALL, NONE, OUTGOING = 0x0003, 0, 4
PACKET_LEVEL, WITH_OFFLOADS, PAST_QUEUES = 263, 15, 20
# So much may wait while others have the processor, or it would be lost.
ROOM_LEVEL, ROOM, ROOM_BYTES = socket.SOL_SOCKET, 33, 8 << 20


def at(interface, protocol):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    end.bind((interface, protocol))
    # Checksums that a card would still fill in are handed on as what they are.
    end.setsockopt(PACKET_LEVEL, WITH_OFFLOADS, 1)
    return end


def do(line):
    subprocess.run(line.split(), check=True)


interface, late = sys.argv[1], float(sys.argv[2]) / 1e3
do("ip link add aside mtu 9000 type veth peer name behind mtu 9000")
for name in ("aside", "behind"):
    do(f"ip link set {name} up")
came, goes, waiting = at("behind", ALL), at(interface, NONE), collections.deque()
came.setsockopt(ROOM_LEVEL, ROOM, ROOM_BYTES)
goes.setsockopt(PACKET_LEVEL, PAST_QUEUES, 1)
# Not before a receiver listens there, or packets would be lost.
do(f"tc qdisc add dev {interface} clsact")
everything = f"tc filter add dev {interface} egress prio 1 u32 match u32 0 0"
do(f"{everything} action mirred egress redirect dev aside")
while True:
    left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    if select.select([came], [], [], left)[0]:
        frame, (_, _, kind, _, _) = came.recvfrom(65536)
        if kind != OUTGOING:
            waiting.append((time.monotonic() + late, frame))
    while waiting and waiting[0][0] <= time.monotonic():
        goes.send(waiting.popleft()[1])
