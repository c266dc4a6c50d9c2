#!/usr/bin/env bash
# A live deployment's transport: 50 times initialize, a GET stream, tools/list and resources/read, every request on a
# connection of its own and without cookies. No -32016, 404 or 5xx, and at least two pods have answered. --help has the flags.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
gate "$@"
rounds=${ROUNDS:-50}

why_begin='' why_stream='' why_list='' why_differs='' why_read='' why_end='' uri='' first='' slowest=0 crossed=0 replicas=''
for ((round = 1; round <= rounds; round++)); do
  begin
  if [ -n "$WRONG" ]; then why_begin=${why_begin:-round $round: $WRONG}; continue; fi
  replicas=" $MAKER "

  open_stream "stream"
  why_stream=${why_stream:-${WRONG:+round $round: $WRONG}}
  [ "$SPENT" -le "$slowest" ] || slowest=$SPENT
  replicas+="$REPLICA "

  rpc tools/list '{}'
  why_list=${why_list:-${WRONG:+round $round: $WRONG}}
  replicas+="$REPLICA "
  if [ -z "$WRONG" ]; then
    first=${first:-$BODY}
    [ "$BODY" = "$first" ] || why_differs=${why_differs:-round $round, by $REPLICA}
  fi

  if [ -z "$uri" ]; then
    rpc resources/list '{}'
    why_read=${why_read:-${WRONG:+round $round: $WRONG}}
    uri=$(first_member uri)
    [ -n "$uri" ] || uri=none
  fi
  if [ "$uri" != none ]; then
    rpc resources/read "{\"uri\":$uri}"
    why_read=${why_read:-${WRONG:+round $round: $WRONG}}
    replicas+="$REPLICA "
  fi

  close_stream
  end_session
  case $STATUS in 200 | 202 | 204) ;; *) why_end=${why_end:-round $round: DELETE gave $STATUS: $BODY} ;; esac
  # shellcheck disable=SC2086 # the names are words
  [ "$(printf '%s\n' $replicas | sort -u | wc -l)" = 1 ] || crossed=$((crossed + 1))
done

verdict "initialize, $rounds times" "$why_begin"
verdict "a GET stream each, its first bytes within $slowest ms" "$why_stream"
verdict "tools/list each" "$why_list"
verdict "the same list from every pod, byte for byte" "$why_differs"
if [ "$uri" = none ]; then skip "resources/read: no resource is listed"; else verdict "resources/read each, of $uri" "$why_read"; fi
verdict "DELETE each" "$why_end"
verdict "no -32016, 404 or 5xx" "$BAD"
why=
[ "$MIN_PODS" -lt 2 ] || [ "$crossed" -gt 0 ] || why="each session was served by one pod alone"
verdict "$crossed of $rounds sessions were served by several pods" "$why"
check_pods
result
