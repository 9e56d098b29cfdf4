-- Moves every stored instant of a shard into the past: by how much, and from which job on. Behind the
-- prelude of the scripts. Answers from which job to go on: a script that runs for seconds would be taken
-- for a server that has failed.
local by, from = tonumber(ARGV[1]), tonumber(ARGV[2])
local MOST = 10000
local function older(v) return text(tonumber(v) - by) end

local function shift(key)
  local members, moved = call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for at = 1, #members, 2 do
    moved[at], moved[at + 1] = tonumber(members[at + 1]) - by, members[at]
  end
  many('ZADD', key, moved)
end


local INSTANTS = { 'd', 't', 'e', 'b', 'r', 'u', 'va' }
local function job(t, id)
  local key = job_key(t, id)
  local values, set = call('HMGET', key, unpack(INSTANTS)), {}
  for at, value in ipairs(values) do
    if value then
      set[#set + 1] = INSTANTS[at]
      set[#set + 1] = older(value)
    end
  end
  if #set > 0 then call('HSET', key, unpack(set)) end
  -- At the first fence it was never delivered, and has no attempts.
  if call('HGET', key, 'f') == '0' then return end
  for at, packed in ipairs(call('LRANGE', attempts_key(t, id), 0, -1)) do
    local attempt = cmsgpack.unpack(packed)
    attempt[4], attempt[5] = older(attempt[4]), older(attempt[5])
    call('LSET', attempts_key(t, id), at - 1, cmsgpack.pack(attempt))
  end
end

local at = 0
for _, lane in ipairs(call('ZRANGE', P .. 'lanes', 0, -1)) do
  local q, t = string.match(lane, '^([^/]*)/([^/]*)$')
  for s = 0, 5 do
    local ids = s == 2 and lease_key(q, t) or index_key(text(s), q, t)
    local count = call('ZCARD', ids)
    if at + count > from and at < from + MOST then
      local first, last = math.max(from - at, 0), math.min(from + MOST - at, count) - 1
      for _, id in ipairs(call('ZRANGE', ids, first, last)) do job(t, id) end
    end
    at = at + count
  end
end
if at > from + MOST then return from + MOST end

local done = {}
for _, lane in ipairs(call('ZRANGE', P .. 'lanes', 0, -1)) do
  local q, t = string.match(lane, '^([^/]*)/([^/]*)$')
  for _, c in ipairs(call('SMEMBERS', classes_key(q, t))) do shift(line_key(q, t, c)) end
  for _, n in ipairs(call('SMEMBERS', later_names_key(q, t))) do
    shift(later_key(q, t, n))
    local lanes = later_lanes_key(q, n)
    if not done[lanes] then shift(lanes) end
    done[lanes] = true
  end
  shift(lease_key(q, t))
  local minutes, whole = call('HGETALL', minutes_key(q, t)), by - by % 60000
  call('DEL', minutes_key(q, t))
  for at = 1, #minutes, 2 do
    local minute, kind = string.match(minutes[at], '^(%d+)(.)$')
    call('HSET', minutes_key(q, t), text(tonumber(minute) - whole) .. kind, minutes[at + 1])
  end
end
shift(P .. 'due')
shift(P .. 'lease')
shift(P .. 'seen')
for _, of in ipairs(call('SMEMBERS', P .. 'hist')) do
  shift(P .. 'h/' .. of)
end
for _, ref in ipairs(call('ZRANGE', P .. 'stubs', 0, -1)) do
  local t, id = string.match(ref, '^([^/]*)/([^/]*)$')
  job(t, id)
end
shift(P .. 'stubs')
local workers = call('HGETALL', P .. 'workers')
for at = 1, #workers, 2 do
  local since, rest = string.match(workers[at + 1], '^(%d+)(.*)$')
  call('HSET', P .. 'workers', workers[at], older(since) .. rest)
end
for _, key in ipairs(call('KEYS', P .. 'pz/*')) do shift(key) end
for _, key in ipairs(call('KEYS', P .. 'cfg/*')) do
  local settings = call('HGETALL', key)
  for at = 1, #settings, 2 do
    local weight, paused, verb, when, who = string.match(settings[at + 1], '^(%d*)|(%d*)|(%a*)|(%d*)|(.*)$')
    if paused ~= '' then paused = older(paused) end
    call('HSET', key, settings[at], weight .. '|' .. paused .. '|' .. verb .. '|' .. older(when) .. '|' .. who)
  end
end
return -1
