# shellcheck shell=bash disable=SC2034 # what is set here is for the gates
# What the smoke gates share: their flags, one line a check, and an MCP client made of curl: every request on a connection
# of its own, without cookies. It needs bash, curl and the usual small tools, and nothing else of this repository, for it
# also runs alone in a Job of the chart. Sourced by the gates, never run.

set -euo pipefail

SMOKE_FLAGS='  --url URL             the endpoint, .../mcp            PLASM_SMOKE_URL; default: the cluster of scripts/cluster
  --token TOKEN|@FILE   sent as a bearer token           PLASM_SMOKE_TOKEN
  --ca FILE             whom to trust beside the system  PLASM_SMOKE_CA
  --rounds N            how often                        PLASM_SMOKE_ROUNDS
  --min-pods N          so many must have answered (2)   PLASM_SMOKE_MIN_PODS
  --list-pods COMMAND   prints "NAME [REPLICA]", a line for each pod that is ready            PLASM_SMOKE_LIST_PODS
  --delete-pod COMMAND  is given NAME; ends when that pod is gone                             PLASM_SMOKE_DELETE_POD
  --namespace N, --selector S   whose pods to find in a Kubernetes cluster, where no commands are given
                                PLASM_SMOKE_NAMESPACE, PLASM_SMOKE_SELECTOR (app.kubernetes.io/name=plasm-mcp)
  --query TEXT          what to find entities by         PLASM_SMOKE_QUERY (id name title)
  --seed API/ENTITY     the entity, where not the first that can be listed       PLASM_SMOKE_SEED
  --program TEXT        what to run over it; it must only read                   PLASM_SMOKE_PROGRAM (e… | limit(3))
  --json                one JSON object a line, in place of text'

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
URL=${PLASM_SMOKE_URL:-}
TOKEN=${PLASM_SMOKE_TOKEN:-}
CA=${PLASM_SMOKE_CA:-}
ROUNDS=${PLASM_SMOKE_ROUNDS:-}
MIN_PODS=${PLASM_SMOKE_MIN_PODS:-2}
LIST_PODS=${PLASM_SMOKE_LIST_PODS:-}
DELETE_POD=${PLASM_SMOKE_DELETE_POD:-}
NAMESPACE=${PLASM_SMOKE_NAMESPACE:-}
SELECTOR=${PLASM_SMOKE_SELECTOR:-app.kubernetes.io/name=plasm-mcp}
QUERY=${PLASM_SMOKE_QUERY:-id name title}
SEED=${PLASM_SMOKE_SEED:-}
PROGRAM=${PLASM_SMOKE_PROGRAM:-}
JSON=
# What is spoken: `speak` changes it.
ERA=legacy
VERSION=2025-11-25
# Longest wait for one answer. An answer that takes longer is a failure.
PATIENCE=30
WORK=$(mktemp -d "${TMPDIR:-/tmp}/plasm-smoke.XXXXXX")
declare -A STREAMS=()

# gate FLAG…: reads the flags and finds what was not given.
gate() {
  while [ $# -gt 0 ]; do
    case $1 in
      --json) JSON=yes ;;
      --help | -h) printf 'usage: %s [FLAG…]\n%s\n' "$(basename "$0")" "$SMOKE_FLAGS"; exit 0 ;;
      --url) URL=$2; shift ;;
      --token) TOKEN=$2; shift ;;
      --ca) CA=$2; shift ;;
      --rounds) ROUNDS=$2; shift ;;
      --min-pods) MIN_PODS=$2; shift ;;
      --list-pods) LIST_PODS=$2; shift ;;
      --delete-pod) DELETE_POD=$2; shift ;;
      --namespace) NAMESPACE=$2; shift ;;
      --selector) SELECTOR=$2; shift ;;
      --query) QUERY=$2; shift ;;
      --seed) SEED=$2; shift ;;
      --program) PROGRAM=$2; shift ;;
      *) usage "unknown flag $1" ;;
    esac
    shift
  done
  if [ -z "$URL" ] && [ -x "$HERE/../cluster" ]; then
    URL=$("$HERE/../cluster" env 2>/dev/null | sed -n 's/^PLASM_URL=//p' || true)
  fi
  [ -n "$URL" ] || usage "no --url is given, and no cluster of scripts/cluster stands"
  CURL=(-sS --max-time "$PATIENCE")
  [ -z "$CA" ] || CURL+=(--cacert "$CA")
  if [ -n "$TOKEN" ]; then
    # In a file: the list of processes is for everybody.
    case $TOKEN in @*) TOKEN=$(cat "${TOKEN#@}") ;; esac
    (umask 077; printf 'Authorization: Bearer %s\n' "$TOKEN" >"$WORK/token")
    CURL+=(-H "@$WORK/token")
  fi
}

usage() { printf '%s\nflags:\n%s\n' "$1" "$SMOKE_FLAGS" >&2; exit 2; }

end_gate() {
  local rc=$? pid
  trap - EXIT INT TERM
  for pid in "${!STREAMS[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$WORK"
  exit "$rc"
}
trap end_gate EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---------------------------------------------------------------- checks

PASSED=0 FAILED=0 SKIPPED=0

text() { printf '%s' "$*" | tr '\n\r\t' '   ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g'; }

told() { # WORD OUTCOME TEXT
  if [ -n "$JSON" ]; then printf '{"check":"%s","outcome":"%s"}\n' "$(text "$3")" "$2"; else printf '%-4s %s\n' "$1" "$3"; fi
}
ok() { PASSED=$((PASSED + 1)); told ok ok "$*"; }
FAIL() { FAILED=$((FAILED + 1)); told FAIL failed "$*"; }
skip() { SKIPPED=$((SKIPPED + 1)); told skip skipped "$*"; }

# verdict NAME WHY: the check failed if there is a reason why.
verdict() { if [ -z "$2" ]; then ok "$1"; else FAIL "$1: $2"; fi; }

# result: the last line. Non-zero if a check failed, or if there was none.
result() {
  if [ -n "$JSON" ]; then
    printf '{"passed":%s,"failed":%s,"skipped":%s}\n' "$PASSED" "$FAILED" "$SKIPPED"
  else
    printf '%s passed, %s failed, %s skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
  fi
  [ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]
}

# ---------------------------------------------------------------- a client

# What the last answer was. REPLICA is the pod that gave it, BODY the message in it, whether it came alone or on a stream.
STATUS='' REPLICA='' BODY='' TYPE='' SESSION='' CHALLENGE='' SPENT=''
# Every answer so far: how many, of which pods, and what must not be among them.
ANSWERS=0
SEEN=' '
BAD=''

header() { tr -d '\r' <"$WORK/head" | awk -v name="$1:" 'tolower($1) == name { sub(/^[^:]*: */, ""); value = $0 } END { print value }'; }

# ask VERB [CURL FLAG…]: one request of the session in SESSION, where there is one.
ask() {
  local verb=$1 headers=(-H "MCP-Protocol-Version: $VERSION") told; shift
  [ -z "$SESSION" ] || headers+=(-H "Mcp-Session-Id: $SESSION")
  : >"$WORK/head"
  : >"$WORK/body"
  STATUS=$(curl "${CURL[@]}" -X "$verb" -D "$WORK/head" -o "$WORK/body" -w '%{http_code}' "${headers[@]}" "$@" "$URL" 2>"$WORK/said") || STATUS="000 ($(tr '\n' ' ' <"$WORK/said"))"
  read_head
  BODY=$(cat "$WORK/body")
  case $TYPE in text/event-stream*) BODY=$(sed -n 's/^data: *//p' "$WORK/body") ;; esac
  ANSWERS=$((ANSWERS + 1))
  told="$verb gave $STATUS${REPLICA:+ from $REPLICA}: ${BODY:0:200}"
  case $STATUS in 404 | 5* | 000*) BAD=${BAD:-$told} ;; esac
  case $BODY in *-32016*) BAD=${BAD:-$told} ;; esac
}

read_head() {
  REPLICA=$(header plasm-replica)
  TYPE=$(header content-type)
  CHALLENGE=$(header www-authenticate)
  case $SEEN in *" $REPLICA "*) ;; *) SEEN="$SEEN$REPLICA " ;; esac
}

# post BODY [CURL FLAG…]
post() {
  local body=$1; shift
  ask POST -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "$@" --data-binary "$body"
}

# speak legacy|modern: the next requests are of 2025-11-25, or of 2026-07-28 and stand alone.
speak() {
  ERA=$1
  case $ERA in
    legacy) VERSION=2025-11-25 ;;
    modern) VERSION=2026-07-28 SESSION='' ;;
  esac
}

# rpc METHOD PARAMS [NAME]: a request; NAME: the tool or the URI that it names. What is wrong with the answer is left in WRONG:
# nothing, if it has a result.
rpc() {
  local params=$2 headers=() ours rest
  if [ "$ERA" = modern ]; then
    ours='"io.modelcontextprotocol/protocolVersion":"'$VERSION'","io.modelcontextprotocol/clientCapabilities":{}'
    ours+=',"io.modelcontextprotocol/clientInfo":{"name":"plasm-smoke","version":"1"}'
    rest=${params#\{}
    [ "$rest" = '}' ] || rest=,$rest
    params="{\"_meta\":{$ours}$rest"
    headers+=(-H "Mcp-Method: $1")
    [ -z "${3:-}" ] || headers+=(-H "Mcp-Name: $3")
  fi
  post '{"jsonrpc":"2.0","id":1,"method":"'"$1"'","params":'"$params"'}' ${headers[@]+"${headers[@]}"}
  WRONG=
  case $BODY in *'"result"'*) ;; *) WRONG=yes ;; esac
  [ "$STATUS" = 200 ] || WRONG=yes
  [ -z "$WRONG" ] || WRONG="$1 gave $STATUS${REPLICA:+ from $REPLICA}: ${BODY:0:300}"
}

# elsewhere PODS METHOD PARAMS [NAME]: asks until another pod than these answers. Every answer on the way must be right, too.
TRIES=20
elsewhere() {
  local pods=" $1 " try; shift
  for ((try = 1; try <= TRIES; try++)); do
    rpc "$@"
    [ -z "$WRONG" ] || return 0
    case $pods in *" $REPLICA "*) ;; *) return 0 ;; esac
  done
  WRONG="$1: $TRIES answers, all of$pods"
}

# tool PODS NAME ARGUMENTS: calls a tool, on another pod than these. A result that says that it failed is wrong, too.
tool() {
  elsewhere "$1" tools/call "{\"name\":\"$2\",\"arguments\":$3}" "$2"
  [ -n "$WRONG" ] || ! said_error || WRONG="$2 on $REPLICA: $(first_member code) $(first_member message)"
}

said_error() { printf '%s' "$BODY" | grep -Eq '"isError"[[:space:]]*:[[:space:]]*true'; }

# begin: a session, left in SESSION; the pod that made it in MAKER. What went wrong is in WRONG.
begin() {
  SESSION=
  rpc initialize '{"protocolVersion":"'$VERSION'","capabilities":{},"clientInfo":{"name":"plasm-smoke","version":"1"}}'
  [ -z "$WRONG" ] || return 0
  MAKER=$REPLICA
  SESSION=$(header mcp-session-id)
  [ -n "$SESSION" ] || { WRONG="initialize gave no Mcp-Session-Id"; return 0; }
  post '{"jsonrpc":"2.0","method":"notifications/initialized"}'
  [ "$STATUS" = 202 ] || WRONG="notifications/initialized gave $STATUS${REPLICA:+ from $REPLICA}: $BODY"
}

# end_session: DELETE. It is also said of sessions that are to be gone, so its answer is not among those that are judged.
end_session() {
  local bad=$BAD
  ask DELETE
  BAD=$bad
}

# open_stream NAME [LAST-EVENT-ID]: a GET stream of the session that stays open, in the background. Waits for its first
# bytes; its process is in STREAM, what comes in $WORK/NAME. What went wrong is in WRONG.
open_stream() {
  local name=$1 headers=(-H "MCP-Protocol-Version: $VERSION" -H "Mcp-Session-Id: $SESSION" -H 'Accept: text/event-stream') since
  [ $# -lt 2 ] || headers+=(-H "Last-Event-ID: $2")
  : >"$WORK/$name.head"
  : >"$WORK/$name"
  # A stream stands as long as it likes: the last of the limits counts.
  curl "${CURL[@]}" -N --max-time 3600 -D "$WORK/$name.head" -o "$WORK/$name" "${headers[@]}" "$URL" 2>"$WORK/$name.said" &
  STREAM=$!
  STREAMS[$STREAM]=open
  since=$(date +%s%N)
  WRONG=
  until [ -s "$WORK/$name" ]; do
    kill -0 "$STREAM" 2>/dev/null || { [ -s "$WORK/$name" ] || WRONG="the stream ended before it began"; break; }
    [ $(($(date +%s%N) - since)) -lt 10000000000 ] || { WRONG="no byte within 10 s"; break; }
    sleep 0.02
  done
  SPENT=$((($(date +%s%N) - since) / 1000000))
  cp "$WORK/$name.head" "$WORK/head"
  read_head
  STATUS=$(awk 'NR == 1 { print $2 }' "$WORK/head")
  ANSWERS=$((ANSWERS + 1))
  case $STATUS in 404 | 5*) BAD=${BAD:-GET gave $STATUS${REPLICA:+ from $REPLICA}} ;; esac
  [ -z "$WRONG" ] || { WRONG="GET gave ${STATUS:-nothing}${REPLICA:+ from $REPLICA}: $WRONG"; return 0; }
  case "$STATUS $TYPE" in "200 text/event-stream"*) ;; *) WRONG="GET gave $STATUS and $TYPE from $REPLICA" ;; esac
}

close_stream() {
  kill "$STREAM" 2>/dev/null || true
  wait "$STREAM" 2>/dev/null || true
  unset "STREAMS[$STREAM]"
}

# last_event NAME: the id of the last event that came on that stream.
last_event() { sed -n 's/^id: *//p' "$WORK/$1" | tail -n 1 | tr -d '\r'; }

# first_member NAME: the first string of that name in BODY, as JSON text with its quotes.
first_member() { printf '%s' "$BODY" | grep -Eo "\"$1\"[[:space:]]*:[[:space:]]*\"([^\"\\\\]|\\\\.)*\"" | head -n 1 | sed -E 's/^"[^"]*"[[:space:]]*:[[:space:]]*//' || true; }

# quoted TEXT: as JSON text.
quoted() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }')"; }

# ---------------------------------------------------------------- the execute surface

# What execute_context found: the session's handle and the program, both as JSON text.
HANDLE='' READS='' FOUND='' OPENER=''

# execute_context: a logical session over entities that can be listed. The pod that opened it is in OPENER, its first entity in FOUND.
execute_context() {
  local seeds='' found one entity
  if [ -n "$SEED" ]; then
    seeds="{\"api\":$(quoted "${SEED%%/*}"),\"entity\":$(quoted "${SEED#*/}")}"
  else
    tool '' discover_capabilities "{\"query\":$(quoted "$QUERY")}"
    [ -z "$WRONG" ] || return 0
    found=$(printf '%s' "$BODY" | grep -Eo '\{[^{}]*"api"[[:space:]]*:[^{}]*\}' | head -n 5 || true)
    while IFS= read -r one; do
      entity=$(BODY=$one first_member entity)
      [ -z "$entity" ] || seeds+="${seeds:+,}{\"api\":$(BODY=$one first_member api),\"entity\":$entity}"
    done <<<"$found"
    [ -n "$seeds" ] || { WRONG="discover_capabilities found nothing by $(quoted "$QUERY"): give --query or --seed"; return 0; }
  fi
  FOUND=$(BODY=$seeds first_member api)::$(BODY=$seeds first_member entity)
  tool '' plasm_context "{\"intent\":\"smoke gate\",\"seeds\":[$seeds]}"
  [ -z "$WRONG" ] || return 0
  OPENER=$REPLICA
  HANDLE=$(first_member logical_session_ref)
  case $HANDLE in '"l_'*) ;; *) WRONG="plasm_context on $REPLICA gave no handle: ${BODY:0:300}"; return 0 ;; esac
  printf '%s' "$BODY" | grep -Eq "\"text\"[[:space:]]*:[[:space:]]*\"${HANDLE//\"/}(\\\\n|\")" || { WRONG="the first line of plasm_context on $REPLICA is not the handle: ${BODY:0:300}"; return 0; }
  [ -z "$PROGRAM" ] || { READS=$(quoted "$PROGRAM"); return 0; }
  # The table's first entity all of whose rows can be asked for.
  one=$(printf '%s' "$BODY" | grep -Eo '\\ne[0-9]+\\t[^\\"]*rows, all' | head -n 1 | grep -Eo '^\\ne[0-9]+' || true)
  # A session that knew them all says only their names.
  [ -n "$one" ] || one=$(printf '%s' "$BODY" | grep -Eo 'known already: e[0-9]+' | head -n 1 | grep -Eo 'e[0-9]+' || true)
  one=${one#\\n}
  if [ -n "$one" ]; then READS="\"$one | limit(3)\""; elif [ -z "$READS" ]; then WRONG="no entity of these can be listed: give --seed and --program"; fi
}

pods_seen() { printf '%s' "$SEEN" | wc -w | tr -d ' '; }

check_pods() {
  local why=
  [ "$(pods_seen)" -ge "$MIN_PODS" ] || why="only $(pods_seen) did, and $MIN_PODS are asked for"
  verdict "pods that answered ($ANSWERS answers):$SEEN" "$why"
}

# ---------------------------------------------------------------- pods

api() { # VERB PATH [CURL FLAG…]: the API of the Kubernetes cluster that this runs in
  local at=/var/run/secrets/kubernetes.io/serviceaccount verb=$1 path=$2; shift 2
  curl -sS --fail --max-time "$PATIENCE" --cacert "$at/ca.crt" -H "Authorization: Bearer $(cat "$at/token")" -X "$verb" "$@" \
    "https://$KUBERNETES_SERVICE_HOST:${KUBERNETES_SERVICE_PORT:-443}/api/v1/namespaces/${NAMESPACE:-$(cat "$at/namespace")}/pods$path"
}

# every_pod: "NAME READY" of each, whatever its state.
every_pod() {
  if command -v kubectl >/dev/null; then
    kubectl ${NAMESPACE:+-n "$NAMESPACE"} get pods -l "$SELECTOR" --no-headers | awk '{ print $1, $2 }'
  else
    api GET "?labelSelector=$(printf '%s' "$SELECTOR" | sed 's/=/%3D/g; s/,/%2C/g')" -H 'Accept: application/json;as=Table;v=v1;g=meta.k8s.io' |
      grep -Eo '"cells":\["[^"]*","[^"]*"' | awk -F'"' '{ print $4, $6 }'
  fi
}

is_kubernetes() { [ -n "${KUBERNETES_SERVICE_HOST:-}" ] || command -v kubectl >/dev/null; }

# list_pods: "NAME [REPLICA]" of each pod that is ready.
list_pods() {
  if [ -n "$LIST_PODS" ]; then
    bash -c "$LIST_PODS"
  elif [ -x "$HERE/../cluster" ] && "$HERE/../cluster" env >/dev/null 2>&1; then
    "$HERE/../cluster" status | awk '$1 ~ /^pod-/ && $NF == "ready" { print $1, $(NF - 1) }'
  elif is_kubernetes; then
    every_pod | awk '{ split($2, of, "/"); if (of[1] > 0 && of[1] == of[2]) print $1 }'
  else
    usage "no --list-pods is given, no cluster of scripts/cluster stands, and this is no Kubernetes cluster"
  fi
}

# delete_pod NAME: ends when it is gone.
delete_pod() {
  local until=$((SECONDS + 600))
  if [ -n "$DELETE_POD" ]; then
    bash -c "$DELETE_POD \"\$@\"" delete-pod "$1"
  elif [ -x "$HERE/../cluster" ] && "$HERE/../cluster" env >/dev/null 2>&1; then
    "$HERE/../cluster" roll "$1"
  else
    if command -v kubectl >/dev/null; then
      kubectl ${NAMESPACE:+-n "$NAMESPACE"} delete pod "$1" --wait=false
    else
      api DELETE "/$1" -o /dev/null
    fi
    while [[ $'\n'$(every_pod) == *$'\n'"$1 "* ]]; do
      [ "$SECONDS" -lt "$until" ] || { echo "pod $1 is still there after 600 s" >&2; return 1; }
      sleep 1
    done
  fi
}
