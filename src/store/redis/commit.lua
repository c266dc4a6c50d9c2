-- One conditional commit over keys of one slot. Values are bytes to it.
-- KEYS: each key once. ARGV: how many checks; each check as name, key's index, arguments; each write alike, to the end.
-- Answers {0, check} (that check failed, from 0), {2, key's index} (another kind) or {1, number of each write}.
-- A record is a hash: the revision under 'r', each field under ':' and its name. A stream's ids are 0-1, 0-2 and so on.
local at = 0
local function argument()
  at = at + 1
  return ARGV[at]
end
local function kind(index)
  return redis.call('TYPE', KEYS[index]).ok
end

local checks = tonumber(argument())
for check = 0, checks - 1 do
  local name, index = argument(), tonumber(argument())
  local key, held, holds = KEYS[index], kind(index), false
  if name == 'absent' then
    holds = held == 'none'
  elseif name == 'present' then
    holds = held ~= 'none'
  elseif held ~= 'none' and held ~= 'hash' then
    return {2, index}
  elseif name == 'rev' then
    holds = redis.call('HGET', key, 'r') == argument()
  elseif name == 'field' then
    local field = argument()
    holds = redis.call('HGET', key, field) == argument()
  else
    holds = redis.call('HEXISTS', key, argument()) == 0
  end
  if not holds then
    return {0, check}
  end
end

-- What kind each key will hold, write by write: refusals come before the first write.
local writes, held = {}, {}
while at < #ARGV do
  local write = {name = argument(), index = tonumber(argument())}
  local index, wanted = write.index, nil
  held[index] = held[index] or kind(index)
  if write.name == 'set' then
    wanted, write.field, write.value = 'hash', argument(), argument()
  elseif write.name == 'unset' then
    wanted, write.field = 'hash', argument()
  elseif write.name == 'append' then
    wanted, write.value, write.keep = 'stream', argument(), argument()
  elseif write.name == 'live' then
    write.life = argument()
  end
  if wanted and held[index] ~= 'none' and held[index] ~= wanted then
    return {2, index}
  end
  if wanted and write.name ~= 'unset' then
    held[index] = wanted
  elseif write.name == 'drop' then
    held[index] = 'none'
  end
  writes[#writes + 1] = write
end

-- Within one commit a revision grows once; a dropped record's successor begins above it, whatever the clock says.
local raised, floor = {}, {}
local function raise(index)
  if raised[index] then
    return
  end
  raised[index] = true
  local key = KEYS[index]
  if redis.call('HINCRBY', key, 'r', 1) == 1 then
    local time = redis.call('TIME')
    local first = math.max(time[1] * 1000000 + time[2], (floor[index] or 0) + 1)
    redis.call('HSET', key, 'r', string.format('%.0f', first))
  end
end

local done = {1}
for number, write in ipairs(writes) do
  local index = write.index
  local key = KEYS[index]
  if write.name == 'set' then
    raise(index)
    redis.call('HSET', key, write.field, write.value)
  elseif write.name == 'unset' then
    if redis.call('HDEL', key, write.field) == 1 then
      raise(index)
    end
  elseif write.name == 'append' then
    local id = redis.call('XADD', key, 'MAXLEN', '=', write.keep, '0-*', 'e', write.value)
    done[number + 1] = tonumber(string.sub(id, 3))
  elseif write.name == 'live' then
    redis.call('PEXPIRE', key, write.life)
  else
    if kind(index) == 'hash' then
      floor[index] = tonumber(redis.call('HGET', key, 'r'))
    end
    raised[index] = nil
    redis.call('DEL', key)
  end
end
for number, write in ipairs(writes) do
  if write.name ~= 'append' then
    local index = write.index
    done[number + 1] = held[index] == 'hash' and tonumber(redis.call('HGET', KEYS[index], 'r')) or 0
  end
end
return done
