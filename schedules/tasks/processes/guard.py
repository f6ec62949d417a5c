"""The guard: a small process between a worker and a program, which kills the program and all its children in the end.

It is imported outside of its package, and must not import anything from Cronty, nor much of the standard library: every
run of a program waits for its imports. A worker sends a frame that describes the program, then single bytes: `+` is a
heartbeat, `T` terminates the program. When the worker dies, its end of the socket closes; when it hangs, its lease runs
out. In both cases the guard kills everything.

On Linux the guard adopts orphans (it is a subreaper), so it also finds children that have left the program's group and
session. It consists of two processes, each of which kills everything if the other one is killed. On other systems it can
only kill the program's process group.
"""

import ctypes
import errno
import marshal
import os
import resource
import select
import signal
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

FRAME = struct.Struct("!cI")
PROGRAM, PID, OUTPUT, ERRORS, DROPPED, REPORT = b"A", b"P", b"1", b"2", b"D", b"R"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
IS_LINUX = sys.platform == "linux"
READ_BYTES = 65_536
FLUSH_SECONDS = 1.0
# New processes can appear while others are being frozen or killed, so the search for them is repeated.
FREEZE_ROUNDS = 10
KILL_SECONDS = 5.0
KILL_POLL_SECONDS = 0.01
MIN_POLL_SECONDS = 0.01
# A program may handle SIGXCPU; after that many more seconds of CPU time it gets SIGKILL.
CPU_GRACE = 5
# If this process wakes up later than this, in seconds, it was suspended, and the delay is not the worker's fault.
MAX_DELAY = 0.5


class OutputBuffer:
    """What a program has printed since the last flush: up to `head` bytes in all from its beginning, then the last ones."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_remaining, self._tail_size = head, tail
        self._head: list[tuple[bytes, bytes]] = []
        self._tail: deque[tuple[bytes, bytes]] = deque()
        self._size = 0
        self._dropped: dict[bytes, int] = {}

    def add(self, kind: bytes, data: bytes) -> None:
        first, rest = data[: self._head_remaining], data[self._head_remaining :]
        self._head_remaining -= len(first)
        if first:
            self._head.append((kind, first))
        if not rest:
            return
        self._tail.append((kind, rest))
        self._size += len(rest)
        # Chunks are dropped whole, as they were read.
        while self._size - len(self._tail[0][1]) >= self._tail_size:
            oldest_kind, oldest = self._tail.popleft()
            self._size -= len(oldest)
            self._dropped[oldest_kind] = self._dropped.get(oldest_kind, 0) + len(oldest)

    def take(self) -> bytes:
        """Return the content as frames, and clear the buffer."""
        frames = [frame(*chunk) for chunk in self._head]
        frames += [frame(DROPPED, kind + str(count).encode()) for kind, count in self._dropped.items()]
        frames += [frame(*chunk) for chunk in self._tail]
        self._head, self._tail, self._size, self._dropped = [], deque(), 0, {}
        return b"".join(frames)


class Guard:
    """Runs one program, until everything that it started is dead."""

    def __init__(self, control: int, parent: int) -> None:
        self._control, self._parent = control, parent
        # Not a byte more: heartbeats may have arrived before this process was ready.
        _, size = FRAME.unpack(_receive(control, FRAME.size))
        self._spec = marshal.loads(_receive(control, size))  # noqa: S302  # nosec B302  # from the worker, which started it
        self._output = OutputBuffer(self._spec["head"], self._spec["tail"])
        self._streams: dict[int, bytes] = {}
        self._input, self._input_end = b"", -1
        self._pid = 0
        self._status: int | None = None
        self._cpu, self._peak = 0.0, 0
        self._unsent = b""
        self._flush_at = 0.0
        self._kill_at = float("inf")
        self._heartbeat_at = time.monotonic()

    def run(self) -> None:
        wake_up, self._wake = _pipe()
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if IS_LINUX:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
        if problem := self._start():
            self._finish({"problem": problem})
            return
        self._send(frame(PID, str(self._pid).encode()))
        os.set_blocking(self._control, False)
        self._watch(wake_up)
        survivors = kill_all(self._descendants, self._has_ended)
        self._read_rest()
        self._finish({"status": self._status, "cpu": self._cpu, "peak": self._peak, "survivors": survivors})

    def _start(self) -> str:
        """Start the program; return why that failed, or an empty text."""
        output, write_output = os.pipe()
        errors, write_errors = os.pipe()
        failure, write_failure = os.pipe()
        text = self._spec.get("input")
        if text is None:
            read_input = os.open(os.devnull, os.O_RDONLY)
        else:
            read_input, self._input_end = os.pipe()
            os.set_blocking(self._input_end, False)
            self._input = text.encode()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _exec_program(self._spec, parent, read_input, write_output, write_errors)
            except OSError as error:
                os.write(write_failure, f"{error.filename}: {error.strerror}".encode())
            finally:
                os._exit(127)
        for number in (read_input, write_output, write_errors, write_failure):
            os.close(number)
        problem = os.read(failure, READ_BYTES)
        os.close(failure)
        for number, kind in ((output, OUTPUT), (errors, ERRORS)):
            os.set_blocking(number, False)
            self._streams[number] = kind
        if self._input_end >= 0:
            self._write_input()
        return problem.decode(errors="replace")

    def _watch(self, wake_up: int) -> None:
        """Pass on output and obey the worker, until the program has ended or has to be killed."""
        wake_at = float("inf")
        while self._status is None:
            now = time.monotonic()
            if now > wake_at + MAX_DELAY:
                # This process was suspended, perhaps with the whole machine: the worker may have been, too.
                self._heartbeat_at = min(now, self._heartbeat_at + now - wake_at)
            if now >= self._kill_at or os.getppid() != self._parent:
                return
            if now >= self._flush_at and not self._unsent:
                self._unsent = self._output.take()
                self._flush_at = now + FLUSH_SECONDS
            poll = select.poll()
            poll.register(self._control, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            for number in (wake_up, *self._streams):
                poll.register(number, select.POLLIN)
            if self._input_end >= 0:
                poll.register(self._input_end, select.POLLOUT)
            wait = min(self._flush_at, self._kill_at, self._heartbeat_at + self._spec["lease"]) - now
            wake_at = now + max(wait, MIN_POLL_SECONDS)
            for number, event in poll.poll((wake_at - now) * 1000):
                if number == wake_up:
                    os.read(wake_up, READ_BYTES)
                    self._reap()
                elif number in self._streams:
                    self._read(number)
                elif number == self._input_end:
                    self._write_input()
                elif not self._exchange(event):
                    return
            # Only after reading the socket: if this process was suspended, heartbeats may be waiting there.
            if now > self._heartbeat_at + self._spec["lease"]:
                return

    def _exchange(self, event: int) -> bool:
        """Send output and read the worker's bytes; return False if it is gone."""
        try:
            if event & select.POLLOUT:
                self._unsent = self._unsent[os.write(self._control, self._unsent) :]
            if not event & ~select.POLLOUT:
                return True
            received = os.read(self._control, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._heartbeat_at = time.monotonic()
        if b"T" in received and self._kill_at == float("inf"):
            self._kill_at = time.monotonic() + self._spec["grace"]
            for pid in self._descendants():
                _kill(pid, signal.SIGTERM)
                # A stopped process handles the signal only once it continues.
                _kill(pid, signal.SIGCONT)
        return bool(received)

    def _write_input(self) -> None:
        """Write as much as the program's standard input has room for, and close it after the last byte."""
        try:
            self._input = self._input[os.write(self._input_end, self._input) :]
        except BlockingIOError:
            return
        except OSError:
            # The program has closed its standard input.
            self._input = b""
        if not self._input:
            os.close(self._input_end)
            self._input_end = -1

    def _read(self, number: int) -> bool:
        """Read a pipe once; return False if there was nothing to read."""
        try:
            data = os.read(number, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            os.close(number)
            del self._streams[number]
            return False
        self._output.add(self._streams[number], data)
        return True

    def _read_rest(self) -> None:
        until = time.monotonic() + KILL_SECONDS
        for number in list(self._streams):
            while self._read(number) and time.monotonic() < until:
                pass

    def _reap(self) -> None:
        """Reap dead processes, the program and its orphans, and add up what they have used."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._cpu += usage.ru_utime + usage.ru_stime
            self._peak = max(self._peak, usage.ru_maxrss * (1024 if IS_LINUX else 1))
            if pid == self._pid:
                self._status = status

    def _has_ended(self) -> bool:
        self._reap()
        return self._status is not None

    def _descendants(self) -> list[int]:
        return _descendants() if IS_LINUX else _group(self._pid, self._status is None)

    def _send(self, data: bytes) -> None:
        # An error means that the worker is gone: then nobody needs the data.
        with suppress(OSError):
            while data and self._is_ready(select.POLLOUT):
                data = data[os.write(self._control, data) :]

    def _is_ready(self, event: int) -> bool:
        """Wait at most one lease until the socket is ready."""
        poll = select.poll()
        poll.register(self._control, event)
        return bool(poll.poll(self._spec["lease"] * 1000))

    def _finish(self, report: dict[str, object]) -> None:
        """Send the report, and wait until the worker closes the socket: closing it first could lose the report."""
        os.set_blocking(self._control, False)
        self._send(self._unsent + self._output.take() + frame(REPORT, repr(report).encode()))
        until = time.monotonic() + self._spec["lease"]
        with suppress(OSError):
            while time.monotonic() < until and self._is_ready(select.POLLIN):
                if not os.read(self._control, READ_BYTES):
                    return


def watch_guard(first: int) -> None:
    """Wait for the guard's main process; if it was killed, kill what it left behind."""
    while True:
        pid, status = os.waitpid(-1, os.WUNTRACED)
        if pid != first:
            continue
        if not os.WIFSTOPPED(status):
            break
        # A stopped guard could neither obey the worker nor notice that it is gone.
        _kill(first, signal.SIGCONT)
    if status != 0:
        kill_all(_descendants)


def kill_all(descendants: Callable[[], list[int]], has_ended: Callable[[], bool] = lambda: True) -> int:
    """Kill all descendants, and wait until the program has ended; return how many survived."""
    frozen: set[int] = set()
    for _ in range(FREEZE_ROUNDS):
        # Freeze all of them first: a fork bomb could otherwise fork faster than it is killed.
        new = set(descendants()) - frozen
        for pid in new:
            _kill(pid, signal.SIGSTOP)
        frozen |= new
        if not new:
            break
    until = time.monotonic() + KILL_SECONDS
    while True:
        is_over, survivors = has_ended(), descendants()
        if (is_over and not survivors) or time.monotonic() > until:
            return len(survivors)
        for pid in survivors:
            _kill(pid, signal.SIGKILL)
        time.sleep(KILL_POLL_SECONDS)  # noqa: TID251  (waits for the kernel)


def _descendants(*ancestors: int) -> list[int]:
    """Return all living descendants of these processes, or of this one; the guard has adopted orphans."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # Split after the last parenthesis: the program's name, in parentheses, may contain anything.
            state, parent, *_ = file.read().rpartition(b")")[2].split()
            if state != b"Z":
                parents.setdefault(int(parent), []).append(int(name))
    pids, waiting = [], [*ancestors] or [os.getpid()]
    while waiting:
        children = parents.get(waiting.pop(), [])
        pids += children
        waiting += children
    return pids


def find_marked(mark: str) -> list[int]:
    """Return the living processes that were started with this environment variable, and their descendants."""
    entry, pids = mark.encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        # Other users' processes cannot be read, nor those that have just ended.
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if entry in file.read().split(b"\0"):
                pids.append(int(name))
    return [*{*pids, *_descendants(*pids)}] if pids else []


def _exec_program(spec: dict, parent: int, *streams: int) -> None:  # type: ignore[type-arg]
    """Replace this child of the guard with the program; raises OSError if it cannot be started."""
    os.setsid()
    for target, number in enumerate(streams):
        os.dup2(number, target)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    if identity := spec.get("identity"):
        _change_user(*identity)
    # After changing the user, which resets it.
    if IS_LINUX:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
    os.umask(spec["umask"])
    os.chdir(spec["directory"])
    program, *_ = spec["arguments"]
    path = _find_program(program, spec["environment"].get("PATH", os.defpath))
    # Last, because Python itself may need more memory than the limit.
    cpu, memory = spec.get("limits") or (None, None)
    _limit(resource.RLIMIT_CPU, cpu, CPU_GRACE)
    _limit(resource.RLIMIT_AS, memory)
    try:
        os.execve(path, spec["arguments"], spec["environment"])  # noqa: S606  # nosec B606  # the operator's program, and no shell
    except FileNotFoundError as error:
        if os.path.exists(path):
            raise OSError(
                error.errno, "The interpreter that its first line names does not exist", path
            ) from error
        raise


def _change_user(user: int, group: int, groups: "list[int]") -> None:
    try:
        os.setgroups(groups)
        os.setgid(group)
        os.setuid(user)
    except PermissionError as error:
        raise OSError(error.errno, "The system does not let Cronty change to this user", str(user)) from error


def _limit(kind: int, limit: "int | None", grace: int = 0) -> None:
    """Limit what the program and each of its children may use; a lower limit of the host stays."""
    if limit is None:
        return
    _, host_hard = resource.getrlimit(kind)
    hard = limit + grace if host_hard == resource.RLIM_INFINITY else min(limit + grace, host_hard)
    resource.setrlimit(kind, (min(limit, hard), hard))


def _find_program(name: str, search: str) -> str:
    """Return the path of a program; search these folders for a name without a slash."""
    if "/" in name:
        return name
    for folder in search.split(os.pathsep):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(errno.ENOENT, f"There is no such program in {search}", name)


def frame(kind: bytes, data: bytes) -> bytes:
    return FRAME.pack(kind, len(data)) + data


def _receive(control: int, size: int) -> bytes:
    """Return exactly this many bytes from the worker; exit if it is gone."""
    data = b""
    while len(data) < size:
        part = os.read(control, size - len(data))
        if not part:
            sys.exit(1)
        data += part
    return data


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _group(pid: int, is_running: bool) -> list[int]:
    """Return the program's process group, as a negative number for `kill`, if any process of it is alive."""
    return [-pid] if is_running or _kill(-pid, 0) else []


def start(control: int) -> None:
    """Run the program that the worker at the other end of this socket describes."""
    os.set_inheritable(control, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # A signal to the whole process group must not end the guard, which still has to kill the program.
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    if IS_LINUX:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        parent = os.getpid()
        if first := os.fork():
            os.close(control)
            watch_guard(first)
            return
        # Its own session, so that killing the group of the other process does not kill this one.
        os.setsid()
    Guard(control, parent).run()
