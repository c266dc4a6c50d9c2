-- GCRA by the server's clock, in microseconds. The key holds the instant at which the limit is full again.
-- ARGV: the time of one unit, of the whole burst, of what is asked. Answers {1, units left} or {0, wait}.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local every, room, need = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = redis.call('GET', KEYS[1])
local used = need
if full then
  used = need + math.max(0, tonumber(full) - now)
end
if used > room then
  return {0, used - room}
end
if need > 0 then
  redis.call('SET', KEYS[1], string.format('%.0f', now + used), 'PX', math.ceil(used / 1000))
end
return {1, math.floor((room - used) / every)}
