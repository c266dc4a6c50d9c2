#!/usr/bin/env bash
# What one pod of a live deployment began, another goes on with: a session made on one is read on another, over plain
# transport; and plasm_context on one, plasm on another, where the execute surface is there. --help has the flags.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
gate "$@"
rounds=${ROUNDS:-20}
# How often the balancer is asked for another pod than the one that made the session.
TRIES=20

# elsewhere METHOD PARAMS: asks until another pod than MAKER answers. Every answer on the way must be right, too.
elsewhere() {
  local try
  for ((try = 1; try <= TRIES; try++)); do
    rpc "$1" "$2"
    [ -z "$WRONG" ] && [ "$REPLICA" = "$MAKER" ] || return 0
  done
  WRONG="$1: $TRIES answers, all of $MAKER, which made the session"
}

why_begin='' why_list='' why_read='' why_stream='' why_end='' uri='' list='' offered='' pods=''
for ((round = 1; round <= rounds; round++)); do
  begin
  if [ -n "$WRONG" ]; then why_begin=${why_begin:-round $round: $WRONG}; continue; fi
  elsewhere tools/list '{}'
  if [ -n "$WRONG" ]; then why_list=${why_list:-round $round: $WRONG}; else list=$BODY; pods="$MAKER, then $REPLICA"; fi
  case $BODY in *'"plasm_context"'*) offered=yes ;; esac
  elsewhere resources/list '{}'
  why_read=${why_read:-${WRONG:+round $round: $WRONG}}
  uri=$(first_member uri)
  if [ -n "$uri" ]; then
    elsewhere resources/read "{\"uri\":$uri}"
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
verdict "no -32016, 404 or 5xx" "$BAD"
check_pods
if [ -n "$offered" ]; then
  skip "plasm_context on one pod, plasm on another by l_… alone: this gate does not know these tools yet"
else
  skip "plasm_context on one pod, plasm on another by l_… alone: the tools are not offered here"
fi
result
