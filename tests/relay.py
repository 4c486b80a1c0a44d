"""Stands for a process of the starter where only a program can be named.

``python -I -S relay.py ADDRESS EXECUTABLE -m mcpkit run server.py`` has next to nothing imported.
It hands the descriptors it has inherited to the starter (`tests.starter`), which runs the rest as
Python would, passes signals on, and ends as that ends. What the starter refuses is executed, and so
is what lacks a standard stream or inherits very many descriptors.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import posix
import sys

MOST = 16
"""Descriptors that are handed on."""

PASSED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)


def read_report(connection: _socket.socket) -> tuple[str, int]:
    data = connection.recv(64)
    if not data:
        posix._exit(1)  # the starter has ended, and what it has started
    kind, number = data.decode().split()
    return kind, int(number)


def inherited() -> list[int]:
    found = []
    for each in map(int, posix.listdir("/proc/self/fd")):
        try:
            posix.fstat(each)
        except OSError:  # that was for the folder
            continue
        found.append(each)
    return sorted(found)


def main(address: str, executable: str, *args: str) -> None:
    descriptors = inherited()
    if descriptors[:3] != [0, 1, 2] or len(descriptors) > MOST:
        posix.execv(sys.executable, [sys.executable, *args])
    request = marshal.dumps(
        {
            "executable": executable,
            "args": list(args),
            "cwd": posix.getcwd(),
            "env": {
                name.decode(errors="surrogateescape"): value.decode(errors="surrogateescape")
                for name, value in posix.environ.items()
            },
            "session": False,
            "descriptors": descriptors,
            "blocked": [int(each) for each in _signal.pthread_sigmask(_signal.SIG_BLOCK, [])],
        }
    )
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    connection.connect(address)
    given = b"".join(each.to_bytes(4, sys.byteorder) for each in descriptors)
    connection.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, given)])
    kind, pid = read_report(connection)
    if kind == "refused":
        posix.execv(sys.executable, [sys.executable, *args])
    for each in descriptors:
        posix.close(each)
    for each in PASSED:
        _signal.signal(each, lambda number, _: posix.kill(pid, number))
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, PASSED)
    _, code = read_report(connection)
    if code < 0:
        if -code not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(-code, _signal.SIG_DFL)
        posix.kill(posix.getpid(), -code)
    posix._exit(code)


main(*sys.argv[1:])
