"""Builds what the Dockerfiles say, without an engine: each RUN is run on this machine's own Debian in place of the base image,
and the last stage is a folder that holds what the base image is known to have and what COPY brings, nothing else. One line a
check; start.py then starts what came out.

    check.py SCRATCH TARGET NODE PROFILE

SCRATCH: an empty folder; gets gateway/start.json and stdio/start.json, what to start. TARGET: a target folder in place of the build's cache.
NODE: a Node of version 22. PROFILE: the build argument.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "box"))

import box
import dockerfile

ROOT = Path(__file__).resolve().parents[2]
GATEWAY, STDIO = "Dockerfile", "deploy/stdio.Dockerfile"
# What gcr.io/distroless/cc-debian12 has of shared libraries: glibc, libgcc, libstdc++, OpenSSL; and which glibc.
LIBRARIES = re.compile(
    r"(ld-linux[-a-z0-9_]*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libanl|libgcc_s|libstdc\+\+|libgomp|libssl|libcrypto)\.so(\.\d+)*"
)
GLIBC = (2, 36)
# This machine's. Where it is newer, what is built here says nothing of what is built there.
GLIBC_HERE = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def verdict(name, *faults):
    faults = [str(fault).strip().replace("\n", " ") for fault in faults if fault]
    print(f"FAIL {name}: {'; '.join(faults)}" if faults else f"ok {name}", flush=True)
    return not faults


def unknown(what):
    raise SystemExit(f"{what} is not known to this check: teach it, or leave it out")


@dataclass
class Builder:
    """What stands in for a base image that programs are built on."""

    binds: list  # folders of this machine, writable
    environment: dict
    caches: dict = field(default_factory=dict)  # by the target of a cache mount
    has: dict = field(default_factory=dict)  # files of the base image that are copied from it, by their path there


def builders(target, node):
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    rustup = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    path = os.environ["PATH"]
    return {
        "rust": Builder(
            [cargo, rustup], {"CARGO_HOME": cargo, "RUSTUP_HOME": rustup, "PATH": f"{cargo}/bin:{path}"}, {"/build/target": target}
        ),
        "node": Builder(
            [node.parent, *filter(Path.exists, [Path.home() / ".npmrc"])],
            {"PATH": f"{node.parent}:{path}", "npm_config_cache": "/tmp/npm"},
            has={"/usr/local/bin/node": node},
        ),
    }


# ---------------------------------------------------------------- stages that build


class Building:
    """A stage on this machine's Debian: the root is its system, read-only, and folders of its own."""

    def __init__(self, stage, root, builder, context):
        self.stage, self.root, self.builder, self.context = stage, root, builder, context
        self.workdir, self.arguments = "/", {}
        root.mkdir(parents=True)
        box.system(root)
        box.furnish(root, tmp=True)
        for place in builder.binds:
            box.bind(place, self.at(place), writable=True)

    def at(self, path):
        return self.root / str(Path(self.workdir, path)).lstrip("/")

    def build(self, given):
        for word, text in self.stage.steps:
            match word:
                case "WORKDIR":
                    self.workdir = text
                    self.at(".").mkdir(parents=True, exist_ok=True)
                case "ARG":
                    name, _, default = text.partition("=")
                    self.arguments[name] = given.get(name, default)
                case "COPY" if text == ". .":
                    for path in self.context:
                        self.at(path).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(ROOT / path, self.at(path))
                case "RUN":
                    self.run(text)
                case _:
                    unknown(f"{word} {text} in a stage that builds")

    def run(self, text):
        options, command = dockerfile.flags(text)
        for name, value in options:
            settings = dict(part.partition("=")[::2] for part in value.split(","))
            if (name, settings.get("type")) != ("mount", "cache"):
                unknown(f"--{name}={value}")
            if cache := self.builder.caches.get(settings["target"]):
                box.bind(cache, self.at(settings["target"]), writable=True)
        environment = os.environ | {name: str(value) for name, value in (self.builder.environment | self.arguments).items()}
        shell = ["/usr/sbin/chroot", self.root, "/bin/sh", "-c", f'cd "$0" && {command}', self.workdir]
        done = subprocess.run(shell, env=environment, capture_output=True, text=True)
        verdict(f"{self.stage.name}: RUN {command[:50]}…", done.returncode and f"{done.returncode}: {(done.stdout + done.stderr)[-3000:]}")

    def made(self, path):
        """What a later stage copies from this one."""
        return self.builder.has.get(path, self.at(path))


# ---------------------------------------------------------------- the last stage


@dataclass
class Image:
    root: Path
    user: str = "0"
    entrypoint: list = field(default_factory=list)
    command: list = field(default_factory=list)
    health: list = field(default_factory=list)
    environment: dict = field(default_factory=lambda: {"PATH": PATH})

    def take(self, word, text):
        match word:
            case "USER":
                self.user = text
            case "ENTRYPOINT":
                self.entrypoint = dockerfile.words(text)
            case "CMD":
                self.command = dockerfile.words(text)
            case "HEALTHCHECK":
                self.health = dockerfile.words(text.partition("CMD ")[2])
            case _:
                unknown(f"{word} in the last stage")

    def bring(self, text, stages):
        options, rest = dockerfile.flags(text)
        source, place = rest.split()
        origin, to = stages[dict(options)["from"]].made(source), self.root / place.lstrip("/")
        if not origin.exists():
            verdict(f"COPY {text}", f"{source} was not made")
        elif origin.is_dir():
            shutil.copytree(origin, to, symlinks=True)
        else:
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, to)
            self.link(to, place)

    def link(self, program, name):
        """Adds the libraries of a program that the base image has, and tells of those that it has not."""
        needed = libraries(program)
        strange = [f"{each} is not in the base image" for each in needed if not LIBRARIES.fullmatch(Path(each).name)]
        newest = max((tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", program.read_bytes())), default=GLIBC)
        linked = ", ".join(sorted(Path(each).name for each in needed)) or "nothing"
        verdict(f"{name} links what its base image has: {linked}", *strange, GLIBC_HERE <= GLIBC < newest and f"it needs glibc {newest}, and that is {GLIBC}")
        for each, path in needed.items():
            to = self.root / (each if each.startswith("/") else f"lib/{each}").lstrip("/")
            if not to.exists():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path.resolve(), to)


def libraries(program):
    """The shared libraries that a program needs, by the name that it needs them under."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True)
    found = {}
    for line in told.stdout.splitlines():
        if "not found" in line:
            raise SystemExit(f"{program}: {line.strip()}")
        if match := re.match(r"\s*(\S+) => (/\S+)|\s*(/\S+) \(", line):
            found[match[1] or match[3]] = Path(match[2] or match[3])
    return found


def distroless(root):
    """What gcr.io/distroless/cc has, but for the libraries, which come as they are needed."""
    for name in ("etc/ssl/certs", "home/nonroot", "lib", "dev", "proc", "sys"):
        (root / name).mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")


def context():
    """Files that the build is given: those of a fresh clone, but what .dockerignore leaves out."""
    rules = (ROOT / ".dockerignore").read_text()
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file() and not dockerfile.ignored(rules, path)]


def build(file, scratch, given, stand_ins, images):
    stages, built = dockerfile.read((ROOT / file).read_text(), given), {}
    for stage in stages[:-1]:
        builder = stand_ins.get(stage.base.partition(":")[0]) or unknown(f"the base image {stage.base}")
        built[stage.name] = Building(stage, scratch / stage.name, builder, context())
        built[stage.name].build(given)
    last, image = stages[-1], Image(scratch / "image")
    if under := images.get(last.base):
        shutil.copytree(under.root, image.root, symlinks=True)
        image = Image(image.root, under.user, under.entrypoint, under.command, under.health)
    elif last.base == "gcr.io/distroless/cc-debian12":
        distroless(image.root)
    else:
        unknown(f"the base image {last.base}")
    for word, text in last.steps:
        image.bring(text, built) if word == "COPY" else image.take(word, text)
    verdict(f"{file}: the user is a number, and not root's", not re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.user) and image.user)
    (scratch / "start.json").write_text(json.dumps({**vars(image), "root": str(image.root)}))
    return image


def pinned():
    """The base images and packages that the files name are those that this repository is tested with."""
    rust = re.search(r'rust-version = "(.+)"', (ROOT / "Cargo.toml").read_text())[1]
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    [toolchain] = re.findall(r"^FROM rust:([\d.]+)-", (ROOT / GATEWAY).read_text(), re.M)
    yield toolchain != rust and f"rust:{toolchain}, and Cargo.toml says {rust}"
    packages = json.loads((ROOT / "tests/clients/package.json").read_text())["dependencies"]
    stdio = (ROOT / STDIO).read_text()
    for name, at in re.findall(r"(@modelcontextprotocol/[\w-]+)@(\S+)", stdio):
        yield packages.get(name) != at and f"{name}@{at}, and tests/clients pins {packages.get(name)}"
    chart = (ROOT / "helm/plasm-mcp/Chart.yaml").read_text()
    yield f'appVersion: "{version}"' not in chart and f"Chart.yaml's appVersion is not {version}"
    yield f"plasm-mcp:{version}" not in stdio and f"{STDIO} is not built on {version}"


def main(scratch, target, node, profile):
    scratch, stand_ins, given = Path(scratch), builders(target, Path(node)), {"PROFILE": profile}
    verdict("versions that the Dockerfiles name are this repository's", *pinned())
    gateway = build(GATEWAY, scratch / "gateway", given, stand_ins, {})
    [name] = re.findall(r"^ARG GATEWAY=(\S+)", (ROOT / STDIO).read_text(), re.M)
    build(STDIO, scratch / "stdio", given, stand_ins, {name: gateway})


if __name__ == "__main__":
    box.enter()
    main(*sys.argv[1:])
