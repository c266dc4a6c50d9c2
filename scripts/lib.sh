# shellcheck shell=bash
# What the scripts share: where things are kept, tools that are fetched on demand at a pinned version,
# processes that end with the script, and one line a check. Sourced by the scripts, never run.

set -euo pipefail
shopt -s inherit_errexit

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${XDG_CACHE_HOME:-${HOME:?}/.cache}/plasm-mcp
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
NODE_PIN=22.23.5
mkdir -p "$CACHE"

say() { printf '%s\n' "$*" >&2; }
die() { say "FAIL $*"; exit 1; }

# ---------------------------------------------------------------- checks: one line each, a count at the end

OK_COUNT=0
FAIL_COUNT=0
ok() { OK_COUNT=$((OK_COUNT + 1)); printf 'ok   %s\n' "$*"; }
FAIL() { FAIL_COUNT=$((FAIL_COUNT + 1)); printf 'FAIL %s\n' "$*"; }

# check NAME COMMAND…: runs the command with its output kept back, and shows that output only if it fails.
check() {
  local name=$1 out; shift
  out=$(mktemp "$(scratch)/check.XXXXXX")
  if "$@" >"$out" 2>&1 </dev/null; then ok "$name"; else FAIL "$name: $* gave $?"; tail -n 40 "$out" >&2; fi
}

# tally PROGRAM…: runs a driver that prints its own `ok`/`FAIL` lines, and counts them with ours. Ending badly, or
# without a single line, is a failure of its own.
tally() {
  local line rc=0 seen=0 out
  out=$(mktemp "$(scratch)/tally.XXXXXX")
  "$@" >"$out" 2>"$out.err" </dev/null || rc=$?
  while IFS= read -r line; do
    case $line in
      "ok "*) seen=$((seen + 1)); ok "${line#ok }" ;;
      "FAIL "*) seen=$((seen + 1)); rc=0; FAIL "${line#FAIL }" ;;
      *) printf '%s\n' "$line" ;;
    esac
  done <"$out"
  [ "$rc" = 0 ] && [ "$seen" -gt 0 ] && return 0
  FAIL "$* ended with $rc after $seen checks"
  tail -n 20 "$out.err" >&2
}

# finish: the last line of a script; non-zero if a check failed, or if there was none.
finish() {
  printf '%s passed, %s failed\n' "$OK_COUNT" "$FAIL_COUNT"
  [ "$FAIL_COUNT" = 0 ] && [ "$OK_COUNT" -gt 0 ]
}

# ---------------------------------------------------------------- a scratch folder and processes, gone at the end

PIDS=()
# A command to run before the processes end: where more than processes is to be put away.
AT_END=true
SCRATCH=
if [ "${BASH_SUBSHELL:-0}" = 0 ]; then SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/plasm-mcp.XXXXXX"); fi
scratch() { printf '%s\n' "$SCRATCH"; }

# start NAME COMMAND…: in the background, output to `$SCRATCH/NAME.log`; leaves the process id in STARTED.
start() {
  local name=$1; shift
  # Whoever waits for a line of it must not find that of a process of the same name before it.
  : >"$SCRATCH/$name.log"
  "$@" >"$SCRATCH/$name.log" 2>&1 </dev/null &
  STARTED=$!
  PIDS+=("$STARTED")
}

# start_url NAME COMMAND…: start, then wait (30 s at most) for the first http URL the program prints; leaves it in URL.
start_url() {
  local name=$1; shift
  start "$name" "$@"
  local until=$((SECONDS + 30))
  while :; do
    URL=$(grep -saoEm1 'https?://[A-Za-z0-9.:-]+(/[A-Za-z0-9._/-]*)?' "$SCRATCH/$name.log" | head -n 1 || true)
    [ -z "$URL" ] || return 0
    if ! kill -0 "$STARTED" 2>/dev/null; then tail -n 20 "$SCRATCH/$name.log" >&2; die "$name ended before it printed a URL"; fi
    [ "$SECONDS" -lt "$until" ] || { tail -n 20 "$SCRATCH/$name.log" >&2; die "$name printed no URL within 30 s"; }
    sleep 0.05
  done
}

# start_gateway NAME FLAG…: `plasm-mcp serve FLAG…` on free ports, ready. Leaves its endpoint in URL (…/mcp) and the
# address of its admin port in ADMIN. GATEWAY may hold another way to run the binary.
start_gateway() {
  local name=$1 listen admin; shift
  listen=127.0.0.1:$(free_port)
  admin=127.0.0.1:$(free_port)
  start "$name" "${GATEWAY[@]:-$(bin plasm-mcp)}" serve --listen "$listen" --admin-listen "$admin" "$@"
  URL=http://$listen/mcp
  ADMIN=http://$admin
  local until=$((SECONDS + 30))
  until curl -sf -o /dev/null --max-time 2 "$ADMIN/readyz"; do
    kill -0 "$STARTED" 2>/dev/null || { tail -n 20 "$SCRATCH/$name.log" >&2; die "$name ended before it was ready"; }
    [ "$SECONDS" -lt "$until" ] || { tail -n 20 "$SCRATCH/$name.log" >&2; die "$name was not ready within 30 s"; }
    sleep 0.05
  done
}

# wait_http URL: until it answers at all, 30 s at most.
wait_http() {
  local until=$((SECONDS + 30))
  until curl -s -o /dev/null --max-time 2 "$1"; do
    [ "$SECONDS" -lt "$until" ] || die "nothing answers on $1 after 30 s"
    sleep 0.05
  done
}

# stop PID: TERM, five seconds, KILL.
stop() {
  local pid=$1 i
  kill -TERM "$pid" 2>/dev/null || { wait "$pid" 2>/dev/null || true; return 0; }
  for ((i = 0; i < 100; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}

end_all() {
  local rc=$? pid
  trap - EXIT INT TERM
  "$AT_END" || true
  for pid in "${PIDS[@]+"${PIDS[@]}"}"; do stop "$pid"; done
  if [ -n "${KEEP_SCRATCH:-}" ]; then say "kept: $SCRATCH"; else rm -rf "$SCRATCH"; fi
  exit "$rc"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# free_port: a port of 127.0.0.1 that was free a moment ago, for programs that cannot choose one themselves.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# ---------------------------------------------------------------- tools

# need COMMAND PACKAGE [PROBE…]: there (the probe says so, where finding the command is not enough), or installed from
# Debian's packages by root; anyone else is told the command to run.
need() {
  local command=$1 package=$2 log; shift 2
  [ $# -gt 0 ] || set -- command -v "$command"
  "$@" >/dev/null 2>&1 && return 0
  command -v apt-get >/dev/null || die "$command is missing; install the package that brings it ($package)"
  [ "$(id -u)" = 0 ] || die "$command is missing: sudo apt-get update && sudo apt-get install -y --no-install-recommends $package"
  say "installing $package"
  log=$(mktemp)
  (
    flock 9
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$package"
  ) 9>"$CACHE/apt.lock" >"$log" 2>&1 || { tail -n 20 "$log" >&2; rm -f "$log"; die "apt-get could not install $package"; }
  rm -f "$log"
  "$@" >/dev/null 2>&1 || die "$package brought no $command"
}

# once DIR BUILD…: prints DIR, made by `BUILD… TEMPORARY` if it is not there. Atomic, and one builder at a time: a folder
# under its final name is whole.
once() {
  local dir=$1 fresh; shift
  if [ ! -d "$dir" ]; then
    mkdir -p "$(dirname "$dir")"
    (
      flock 9
      [ ! -d "$dir" ] || exit 0
      fresh=$(mktemp -d "$dir.XXXXXX")
      if "$@" "$fresh" >"$fresh.log" 2>&1 </dev/null; then
        mv "$fresh" "$dir"; rm -f "$fresh.log"
      else
        tail -n 30 "$fresh.log" >&2; rm -rf "$fresh" "$fresh.log"; exit 1
      fi
    ) 9>"$dir.lock" || die "could not make $(basename "$dir")"
  fi
  printf '%s\n' "$dir"
}

# cargo_ready: a working cargo. Under an emptied HOME rustup forgets its toolchains, so they are looked for beside the
# cargo that stands in PATH.
cargo_ready() {
  command -v cargo >/dev/null || die "cargo is missing: install Rust 1.95 or later (https://rustup.rs)"
  cargo --version >/dev/null 2>&1 && return 0
  local house; house=$(cd "$(dirname "$(command -v cargo)")/../.." && pwd)
  if [ -z "${RUSTUP_HOME:-}" ] && [ -d "$house/.rustup" ]; then export RUSTUP_HOME="$house/.rustup"; fi
  cargo --version >/dev/null || die "cargo does not run"
}

# build: the gateway's binary and the example programs, once, in the profile that the tests use too.
build() { cargo_ready; (cd "$ROOT" && cargo build --locked --quiet --bins --examples) || die "the build failed"; }
bin() { printf '%s\n' "$CARGO_TARGET_DIR/debug/$1"; }
example() { printf '%s\n' "$CARGO_TARGET_DIR/debug/examples/$1"; }

install_node() {
  local arch
  case $(uname -m) in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) echo "no packaged Node for $(uname -m)"; return 1 ;; esac
  # In its folder, and not by --prefix: that would also move where npm looks for the machine's own settings.
  (cd "$1" && echo '{}' >package.json && npm install --no-audit --no-fund --ignore-scripts "node-linux-$arch@$NODE_PIN") &&
    ln -s "node_modules/node-linux-$arch/bin" "$1/bin" && "$1/bin/node" --version
}

# node22: prints the path of a Node of version 22 or later: the machine's, else a pinned one from npm.
node22() {
  local major dir
  major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
  if [ "$major" -ge 22 ]; then command -v node; return; fi
  need npm npm
  dir=$(once "$CACHE/node-$NODE_PIN" install_node) || exit 1
  printf '%s/bin/node\n' "$dir"
}

install_npm() {
  cp "$ROOT/tests/$1/package.json" "$ROOT/tests/$1/package-lock.json" "$ROOT/tests/$1/.npmrc" "$2"
  (cd "$2" && npm ci --no-audit --no-fund --ignore-scripts)
}

# npm_dir FOLDER: prints a folder whose node_modules holds what tests/FOLDER/package-lock.json pins.
npm_dir() {
  local of=$1 key
  need npm npm
  key=$(cd "$ROOT/tests/$of" && sha256sum package.json package-lock.json | sha256sum | cut -c1-16)
  once "$CACHE/npm-$key" install_npm "$of"
}

install_python() {
  python3 -m venv "$2" && "$2/bin/python" -m pip install --quiet --disable-pip-version-check -r "$ROOT/tests/$1/requirements.txt"
}

# python_ready: a Python that can make an environment; Debian splits that off.
python_ready() { need python3 python3 && need "python3's venv" python3-venv python3 -c 'import ensurepip, venv'; }

# python_env FOLDER: prints the Python of an environment with what tests/FOLDER/requirements.txt pins.
python_env() {
  local of=$1 key dir
  python_ready
  key=$({ cat "$ROOT/tests/$of/requirements.txt"; python3 --version; } | sha256sum | cut -c1-16)
  dir=$(once "$CACHE/python-$key" install_python "$of") || exit 1
  printf '%s/bin/python\n' "$dir"
}
