#!/usr/bin/env bash
# What one pod of a live deployment began, others go on with. A transport session made on one is read on another. A logical
# session (l_…) opened on one is planned on another and run on a third, and its result is read by tool and as a resource on
# others: with Mcp-Session-Id, without, and in the era that has none. --help has the flags.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
gate "$@"
rounds=${ROUNDS:-20}
why_begin='' why_list='' why_read='' why_stream='' why_end='' uri='' list='' offered='' pods=''
for ((round = 1; round <= rounds; round++)); do
  begin
  if [ -n "$WRONG" ]; then why_begin=${why_begin:-round $round: $WRONG}; continue; fi
  elsewhere "$MAKER" tools/list '{}'
  if [ -n "$WRONG" ]; then why_list=${why_list:-round $round: $WRONG}; else list=$BODY; pods="$MAKER, then $REPLICA"; fi
  case $BODY in *'"plasm_context"'*) offered=yes ;; esac
  elsewhere "$MAKER" resources/list '{}'
  why_read=${why_read:-${WRONG:+round $round: $WRONG}}
  uri=$(first_member uri)
  if [ -n "$uri" ]; then
    elsewhere "$MAKER" resources/read "{\"uri\":$uri}"
    why_read=${why_read:-${WRONG:+round $round: $WRONG}}
  fi
  open_stream "stream"
  why_stream=${why_stream:-${WRONG:+round $round: $WRONG}}
  close_stream
  end_session
  case $STATUS in 200 | 202 | 204) ;; *) why_end=${why_end:-round $round: DELETE gave $STATUS: $BODY} ;; esac
done

verdict "sessions made, $rounds times" "$why_begin"
[ -n "$list" ] || [ -n "$why_list" ] || why_list="no session was made"
verdict "tools/list of each on another pod (last: $pods)" "$why_list"
verdict "resources of each on another pod${uri:+, $uri among them}" "$why_read"
verdict "a GET stream of each on whichever pod" "$why_stream"
verdict "ended, each" "$why_end"

# surface WAY: from the question to the stored result, each step on another pod than the one before. What went wrong is in WRONG,
# the pods in WENT.
surface() {
  local planner runner before run_ref uri
  WENT=''
  execute_context
  [ -z "$WRONG" ] || return 0
  tool "$OPENER" plasm "{\"logical_session_ref\":$HANDLE,\"program\":$READS}"
  [ -z "$WRONG" ] || return 0
  planner=$REPLICA
  run_ref=$(first_member run_ref)
  [ -n "$run_ref" ] || { WRONG="plasm on $REPLICA gave no run_ref: ${BODY:0:300}"; return 0; }
  # A third pod, where there is one.
  before=$planner
  [ "$(pods_seen)" -lt 3 ] || before="$OPENER $planner"
  tool "$before" plasm_run "{\"logical_session_ref\":$HANDLE,\"run_ref\":$run_ref}"
  [ -z "$WRONG" ] || return 0
  runner=$REPLICA
  uri=$(first_member artifact_uri)
  [ -n "$uri" ] || { WRONG="plasm_run on $REPLICA stored nothing: ${BODY:0:300}"; return 0; }
  tool "$runner" plasm_read_run_artifact "{\"logical_session_ref\":$HANDLE,\"artifact_uri\":$uri}"
  [ -z "$WRONG" ] || return 0
  elsewhere "$runner" resources/read "{\"uri\":$uri}" "$(printf '%s' "$uri" | tr -d '"')"
  WENT="$OPENER, $planner, $runner, $REPLICA"
}

# unknown: a handle that never was is unknown on every pod, and no failure of the store.
unknown() {
  tool '' plasm '{"logical_session_ref":"l_aaaaaaaaaaaaaaaaaaaaaaaaaa","program":"e1"}'
  if [ "$STATUS" = 200 ] && [ "$(first_member code)" = '"session_unknown"' ]; then WRONG=; else WRONG="$STATUS from $REPLICA: ${BODY:0:300}"; fi
}

runs=$(((rounds + 3) / 4))
# way NAME: as many rounds of it.
way() {
  local name=$1 why='' round
  for ((round = 1; round <= runs; round++)); do
    case $name in "with Mcp-Session-Id"*) begin ;; *) SESSION='' WRONG='' ;; esac
    [ -n "$WRONG" ] || surface
    why=${why:-${WRONG:+round $round: $WRONG}}
    [ -z "$SESSION" ] || end_session
  done
  verdict "found, opened, planned, run, and read by tool and as a resource, each on another pod, $runs times $name${WENT:+ (last: $FOUND on $WENT)}" "$why"
}

if [ -n "$offered" ]; then
  way "with Mcp-Session-Id, 2025-11-25"
  bad=$BAD SESSION=''
  rpc tools/list '{}'
  if [ "$STATUS" = 400 ]; then
    BAD=$bad
    skip "the same without Mcp-Session-Id, 2025-11-25: this deployment wants one (legacy.sessionless)"
  else
    way "without Mcp-Session-Id, 2025-11-25"
  fi
  speak modern
  way "without any session, 2026-07-28"
  unknown
  verdict "a handle that never was is session_unknown" "$WRONG"
else
  skip "plasm_context on one pod, plasm on another by l_… alone: the tools are not offered here"
fi
verdict "no -32016, 404 or 5xx" "$BAD"
check_pods
result
