#!/usr/bin/env bash
# One pod of a live deployment is deleted while sessions with open GET streams use it: every session goes on under its
# Mcp-Session-Id, a stream that ended is resumed, a stream's end ends no session, and DELETE does. A logical session (l_…) and
# its stored result, where the execute surface is there, go on too. --help has the flags.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
gate "$@"
# Sessions with a stream each: enough that the pod to be deleted holds some.
rounds=${ROUNDS:-8}
# Longest time from the deletion to as many pods as before.
BACK=600

list_pods >"$WORK/pods" || { FAIL "the pods cannot be listed"; result; exit 1; }
before=$(grep -c . "$WORK/pods" || true)
[ "$before" -ge "$MIN_PODS" ] || { FAIL "$before pods are ready, and $MIN_PODS are asked for"; result; exit 1; }

sessions=() processes=() holders=() why=''
for ((n = 0; n < rounds; n++)); do
  begin
  if [ -n "$WRONG" ]; then why=${why:-$WRONG}; break; fi
  # The same number of requests a session would bring all streams to one pod where the balancer goes round.
  for ((ping = 0; ping < n; ping++)); do rpc ping '{}'; why=${why:-$WRONG}; done
  open_stream "stream-$n"
  if [ -n "$WRONG" ]; then why=${why:-$WRONG}; break; fi
  sessions+=("$SESSION") processes+=("$STREAM") holders+=("$REPLICA")
done
verdict "$rounds sessions with a GET stream each, on pods$SEEN" "$why"
[ -z "$why" ] || { result; exit 1; }

# A logical session with a stored result.
SESSION=${sessions[0]} offered='' uri='' why=''
rpc tools/list '{}'
case $BODY in
  *'"plasm_context"'*)
    offered=yes
    execute_context
    [ -n "$WRONG" ] || tool '' plasm "{\"logical_session_ref\":$HANDLE,\"program\":$READS,\"mode\":\"auto\"}"
    why=$WRONG
    uri=$(first_member artifact_uri)
    [ -n "$why$uri" ] || why="plasm on $REPLICA stored nothing: ${BODY:0:300}"
    verdict "plasm_context, and a program over $FOUND whose result is stored" "$why"
    ;;
esac

# A pod that holds a stream, where it is known which.
victim='' replica=''
while read -r name its; do
  case " ${holders[*]} " in *" ${its:-?} "*) victim=$name replica=$its; break ;; esac
  victim=${victim:-$name}
done <"$WORK/pods"

delete_pod "$victim" >"$WORK/deleted" 2>&1 &
deletion=$!
# Meanwhile each session is used in turn.
calls=0 why='' n=0
while kill -0 "$deletion" 2>/dev/null; do
  SESSION=${sessions[$((n++ % rounds))]}
  rpc tools/list '{}'
  calls=$((calls + 1))
  why=${why:-$WRONG}
done
gone=
wait "$deletion" || gone="the command gave $?: $(tail -n 3 "$WORK/deleted" | tr '\n' ' ')"
verdict "$victim${replica:+ ($replica)} is deleted" "$gone"
verdict "$calls calls of these sessions meanwhile, none failed" "$why"

until=$((SECONDS + BACK)) why=
until list_pods >"$WORK/pods" && [ "$(grep -c . "$WORK/pods" || true)" -ge "$before" ]; do
  [ "$SECONDS" -lt "$until" ] || { why="$(grep -c . "$WORK/pods" || true) after $BACK s"; break; }
  sleep 1
done
verdict "$before pods are ready again" "$why"

why='' returned='' ghost=''
for SESSION in "${sessions[@]}"; do
  for ((n = 0; n < 2 * before; n++)); do
    rpc tools/list '{}'
    why=${why:-$WRONG}
    [ -z "$replica" ] || [ "$REPLICA" != "$replica" ] || ghost="$replica answered"
  done
done
verdict "every session goes on, on every pod" "$why"
[ -z "$replica" ] || verdict "the deleted pod answers nothing any more" "$ghost"

ended=0 why='' kept=''
for ((n = 0; n < rounds; n++)); do
  if kill -0 "${processes[$n]}" 2>/dev/null; then
    [ "${holders[$n]}" != "$replica" ] || kept="stream $n of $replica stands"
    continue
  fi
  ended=$((ended + 1))
  SESSION=${sessions[$n]}
  last=$(last_event "stream-$n")
  [ -n "$last" ] || { why=${why:-stream $n had no event id}; continue; }
  open_stream "resumed-$n" "$last"
  [ -z "$WRONG" ] || { why=${why:-stream $n: $WRONG}; continue; }
  returned="$returned $REPLICA"
done
verdict "the streams of the deleted pod ended" "$kept"
if [ "$ended" -gt 0 ]; then
  verdict "$ended streams resumed by Last-Event-ID, on$returned" "$why"
else
  skip "resumed streams: the deleted pod held none of ours"
fi

# The client's own end of a stream.
SESSION=${sessions[0]} why=
open_stream closed
why=$WRONG
close_stream
for ((n = 0; n < 2 * before; n++)); do rpc tools/list '{}'; why=${why:-$WRONG}; done
verdict "a stream that its client closed ends no session, on any pod" "$why"
last=$(last_event closed)
open_stream again "$last"
verdict "a later GET resumes it" "$WRONG"
close_stream

BAD_BEFORE=$BAD why=
end_session
case $STATUS in 200 | 202 | 204) ;; *) why="DELETE gave $STATUS: $BODY" ;; esac
# It is dead on all pods within a second; the time is counted from DELETE's answer.
since=$SECONDS
dead=0
while [ "$dead" -lt $((2 * before)) ]; do
  post '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'
  if [ "$STATUS" = 404 ]; then dead=$((dead + 1)); else dead=0; fi
  [ $((SECONDS - since)) -lt 5 ] || { why=${why:-still $STATUS from $REPLICA after 5 s}; break; }
done
case $BODY in *-32016*) ;; *) why=${why:-404 without -32016: $BODY} ;; esac
[ -z "$CHALLENGE" ] || why=${why:-404 bears WWW-Authenticate}
verdict "DELETE ends it on every pod: 404 and -32016" "$why"
BAD=$BAD_BEFORE

for SESSION in "${sessions[@]:1}"; do end_session; done
verdict "no -32016, 404 or 5xx but for the session that was deleted" "$BAD"
check_pods
if [ -n "$offered" ] && [ -n "$uri" ]; then
  why=''
  speak modern
  for ((n = 0; n < 2 * before; n++)); do
    tool '' plasm "{\"logical_session_ref\":$HANDLE,\"program\":$READS,\"mode\":\"auto\"}"
    why=${why:-$WRONG}
    rpc resources/read "{\"uri\":$uri}" "$(printf '%s' "$uri" | tr -d '"')"
    why=${why:-$WRONG}
  done
  verdict "the logical session goes on by its handle alone, on every pod, and its result is still there" "$why"
  verdict "no -32016, 404 or 5xx meanwhile" "$BAD"
elif [ -z "$offered" ]; then
  skip "l_… on another pod: the execute surface is not offered here"
fi
result
