-- One bounded round (X1): takes back what was silent past its lease, promotes what came due, prunes
-- history. How long done jobs stay, how many of each queue, how long cancelled ones, most of each; of
-- queues with too many over several shards also the last to go: queue, its end, tenant/id.
local done_age, done_number, cancelled_age = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local MOST = tonumber(ARGV[4])
local reply, last = { 0, 0, 0 }, {}
for at = 5, #ARGV, 3 do last[ARGV[at]] = { ARGV[at + 1], ARGV[at + 2] } end

local taken, woken = 0, {}
-- Of lanes that may have a lease to take back most have none: they were renewed.
local lanes = call('ZRANGE', P .. 'lease', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 100)
local crowded = #lanes == 100
for _, lane in ipairs(lanes) do
  local q, t = string.match(lane, '^([^/]*)/([^/]*)$')
  local leases = lease_key(q, t)
  for _, id in ipairs(call('ZRANGE', leases, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, MOST - taken)) do
    local h = load(t, id)
    if h and is_expired(h) then
      local state = tonumber(h.a) < tonumber(h.m) and READY or PARKED
      if h.z then state = CANCELLED end
      local with = {}
      lose(h, state, with)
      change(h, with)
      if state == READY then woken[q] = true end
      for _, value in ipairs({ t, id, q, h.n, h.a, state }) do reply[#reply + 1] = value end
    elseif not h or h.s ~= RUNNING then
      call('ZREM', leases, id)
    end
    taken = taken + 1
  end
  local head = call('ZRANGE', leases, 0, 0, 'WITHSCORES')
  if head[2] then
    call('ZADD', P .. 'lease', head[2], lane)
  else
    call('ZREM', P .. 'lease', lane)
  end
  if taken >= MOST then break end
end

local promoted = 0
local due = call('ZRANGE', P .. 'due', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 100)
crowded = crowded or #due == 100
for _, of in ipairs(due) do
  local q, n = string.match(of, '^([^/]*)/([^/]*)$')
  local count, has_more = promote(q, n, MOST, MOST - promoted, false)
  crowded = crowded or has_more
  if count > 0 then woken[q] = true end
  promoted = promoted + count
  if promoted >= MOST then break end
end

-- What is past its retention keeps its identity and its last claim for two minutes after its end.
local pruned = 0
for _, of in ipairs(call('SMEMBERS', P .. 'hist')) do
  local s, q = string.match(of, '^(%d)/(.*)$')
  local history = history_key(s, q)
  local old = NOW - (s == DONE and done_age or cancelled_age)
  local room = MOST - pruned
  local gone = call('ZRANGE', history, '-inf', old, 'BYSCORE', 'LIMIT', 0, room)
  if s == DONE then
    local surplus = math.min(call('ZCARD', history) - done_number, room)
    if surplus > #gone then gone = call('ZRANGE', history, 0, surplus - 1) end
    if last[q] then
      local older, at_last = {}, '(' .. last[q][1]
      for _, ref in ipairs(call('ZRANGE', history, '-inf', at_last, 'BYSCORE', 'LIMIT', 0, room)) do
        older[#older + 1] = ref
      end
      for _, ref in ipairs(call('ZRANGE', history, last[q][1], last[q][1], 'BYSCORE', 'LIMIT', 0, room)) do
        if ref <= last[q][2] and #older < room then older[#older + 1] = ref end
      end
      if #older > #gone then gone = older end
    end
  end
  for _, ref in ipairs(gone) do
    local t, id = string.match(ref, '^([^/]*)/([^/]*)$')
    local h = load(t, id)
    call('ZREM', history, ref)
    if h and h.s == s then
      call('ZREM', index_key(s, q, t), id)
      local fields = {}
      for field in pairs(h) do
        if not string.find('qnsfcoeTI', field, 1, true) then fields[#fields + 1] = field end
      end
      if #fields > 0 then call('HDEL', job_key(t, id), unpack(fields)) end
      call('HSET', job_key(t, id), 'stub', '1')
      call('DEL', body_key(t, id), attempts_key(t, id))
      call('ZADD', P .. 'stubs', h.e, ref)
    end
  end
  pruned = pruned + #gone
  if call('EXISTS', history) == 0 then call('SREM', P .. 'hist', of) end
  if pruned >= MOST then break end
end
local stubs = call('ZRANGE', P .. 'stubs', '-inf', NOW - STUB, 'BYSCORE', 'LIMIT', 0, MOST)
for _, ref in ipairs(stubs) do
  local t, id = string.match(ref, '^([^/]*)/([^/]*)$')
  if call('HGET', job_key(t, id), 'stub') then call('DEL', job_key(t, id)) end
  call('ZREM', P .. 'stubs', ref)
end

-- Lanes of which nothing is left are forgotten, a few at a time.
local from = call('GET', P .. 'gc') or ''
lanes = call('ZRANGE', P .. 'lanes', '(' .. from, '+', 'BYLEX', 'LIMIT', 0, 50)
for _, lane in ipairs(lanes) do
  local q, t = string.match(lane, '^([^/]*)/([^/]*)$')
  local left = call('EXISTS', index_key(SCHEDULED, q, t), index_key(READY, q, t), lease_key(q, t),
    index_key(PARKED, q, t), index_key(DONE, q, t), index_key(CANCELLED, q, t), minutes_key(q, t))
  if left == 0 and call('HEXISTS', settings_key(q), t) == 0 then
    call('ZREM', P .. 'lanes', lane)
    call('ZREM', P .. 'tenants', t .. '/' .. q)
  end
end
call('SET', P .. 'gc', lanes[50] or '')

for q in pairs(woken) do wake(q) end
reply[1], reply[2] = promoted, pruned
if crowded or taken >= MOST or promoted >= MOST or pruned >= MOST or #stubs >= MOST then reply[3] = 1 end
return reply
