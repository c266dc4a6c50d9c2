-- Reads a record and drops it at one instant.
local record = redis.call('HGETALL', KEYS[1])
if #record > 0 then
  redis.call('DEL', KEYS[1])
end
return record
