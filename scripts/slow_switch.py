#!/usr/bin/env python3
"""A switch that takes its time and loses packets, for scripts/check_hosts.sh where the kernel has no netem.

    slow_switch.py --delay SECONDS --loss SHARE INTERFACE...

Hands what comes in at one interface to all others, after the delay, but for a share that is drawn at random. Ends by
SIGTERM and then prints how much there was.
"""

import argparse
import collections
import random
import select
import signal
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23


def open_port(interface):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    # With a header that says which checksums are still to be made: between namespaces nobody makes them.
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.bind((interface, 0))
    port.setblocking(False)
    return port


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, required=True)
    parser.add_argument("--loss", type=float, required=True)
    parser.add_argument("interfaces", nargs="+")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ports = [open_port(interface) for interface in arguments.interfaces]
    on_the_way = collections.deque()  # (when it is due, where it came in, the packet)
    passed = lost = 0
    try:
        while True:
            patience = max(0.0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
            for port in select.select(ports, [], [], patience)[0]:
                packet = port.recv(1 << 17)
                if random.random() < arguments.loss:
                    lost += 1
                else:
                    on_the_way.append((time.monotonic() + arguments.delay, port, packet))
            while on_the_way and on_the_way[0][0] <= time.monotonic():
                _, came_in, packet = on_the_way.popleft()
                passed += 1
                for port in ports:
                    if port is not came_in:
                        try:
                            port.send(packet)
                        except OSError:  # its queue is full
                            lost += 1
    finally:
        print(f"slow_switch: {passed} packets passed, {lost} lost", flush=True)


if __name__ == "__main__":
    main()
