-- Appends a letter to a pod's inbox if its lease stands. KEYS: lease, inbox. ARGV: letter, the inbox's bound and life.
-- Answers 1 (put), 0 (no lease) or 2 (full).
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[2]) then
  return 2
end
redis.call('XADD', KEYS[2], '*', 'e', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
