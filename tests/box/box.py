"""A root of its own for a program, as a container gives it: what a folder holds and nothing else, read-only, as a user
without rights. It is made of unshare(1), mount(8), chroot(8) and setpriv(1); without root it needs user namespaces, and the
user is then who called."""

import os
import signal
import socket
import subprocess
import sys
import time
from fcntl import ioctl
from pathlib import Path
from struct import pack

# Asked before the namespaces: in one of users everybody is root.
IS_ROOT = os.environ.get("BOX_ROOT", str(os.geteuid() == 0)) == "True"
# Of a Debian machine: what its programs need.
SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "etc")
DEVICES = ("null", "zero", "full", "random", "urandom")


def enter(*namespaces):
    """Runs this program again, in mount namespaces of its own and those: mounts end with it."""
    mark = "+".join(("mount", *namespaces))
    if os.environ.get("BOX") == mark:
        return
    kinds = [f"--{kind}" for kind in ("mount", *namespaces)]
    whom = [] if IS_ROOT else ["--user", "--map-root-user"]
    pid = ["--fork", "--kill-child", "--mount-proc"] if "pid" in namespaces else []
    program = [sys.executable, "-B", *sys.argv]
    os.execvpe("unshare", ["unshare", *whom, *kinds, *pid, "--propagation", "private", *program], {**os.environ, "BOX": mark, "BOX_ROOT": str(IS_ROOT)})


def loopback():
    """In a network namespace of its own: 127.0.0.1, where every port is free."""
    up, running = 0x1, 0x40
    with socket.socket() as any_socket:
        ioctl(any_socket, 0x8914, pack("16sH22x", b"lo", up | running))


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def bind(source, place, *, writable=False):
    place = Path(place)
    if Path(source).is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.touch()
    mount("--bind", source, place)
    if not writable:
        mount("-o", "remount,bind,ro", place)


def system(root):
    """This machine's own programs under the root, read-only; each name as what it is here, a folder or a link."""
    for name in SYSTEM:
        own = Path("/", name)
        if own.is_symlink():
            (root / name).symlink_to(os.readlink(own))
        elif own.is_dir():
            bind(own, root / name)


def furnish(root, *, tmp=False):
    """What a container's engine adds to each root: devices, /proc, and a writable /tmp where one is asked for."""
    for name in DEVICES:
        bind(f"/dev/{name}", root / "dev" / name, writable=True)
    bind("/proc", root / "proc", writable=True)
    if tmp:
        (root / "tmp").mkdir(exist_ok=True)
        mount("-t", "tmpfs", "-o", "mode=1777,size=64m", "tmpfs", root / "tmp")


def seal(root):
    """The root becomes a mount of its own, and read-only; what is mounted in it stays as it is."""
    mount("--rbind", root, root)
    mount("-o", "remount,bind,ro", root)


def inside(root, user, environment, command):
    """The command line that runs a command there, as `UID:GID`, with this environment alone."""
    who = [f"--userspec={user}", "--groups="] if IS_ROOT and user else []
    given = [f"{name}={value}" for name, value in environment.items()]
    return ["setpriv", "--no-new-privs", "/usr/bin/env", "-i", *given, "/usr/sbin/chroot", *who, str(root), *command]


def end(process, patience=20):
    """SIGTERM, and its exit code; SIGKILL if that does not come."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def soon(condition, patience=30):
    """Waits until it holds; whether it did in time."""
    until = time.monotonic() + patience
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
