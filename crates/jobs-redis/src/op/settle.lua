-- Ends runs: tenant, id, fence, nonce, outcome, delay, cause. The whole claim is compared, and time is
-- not: an expired claim is held until somebody has taken or freed its job (S2). In order, so that
-- inside one batch the first for a claim wins (S3).
local PART = 7
local answers = {}
local TO = { ['0'] = DONE, ['1'] = SCHEDULED, ['2'] = PARKED, ['3'] = SCHEDULED, ['4'] = READY, ['5'] = CANCELLED }
local woken, lanes = {}, {}

-- The usual end, of which what its lane's sets have to learn is told them once a batch. Its lease's end
-- stays in the hash: of a job that does not run nobody reads it.
local function done(q, t, id, h)
  local job = job_key(t, id)
  call('HSET', job, 's', DONE, 'o', '0', 'e', NOW)
  if h[5] or h[6] then call('HDEL', job, 'z', 'x') end
  if h[7] then keep_or_free_key({ T = t, I = id, s = DONE, k = h[7], ks = h[8], kh = h[9] or nil }) end
  local name = q .. '/' .. t
  local lane = lanes[name]
  if not lane then
    lane = { q = q, t = t, ids = {}, indexed = {}, history = {} }
    lanes[name] = lane
  end
  local ids, indexed, history = lane.ids, lane.indexed, lane.history
  ids[#ids + 1] = id
  indexed[#indexed + 1] = 0
  indexed[#indexed + 1] = id
  history[#history + 1] = NOW
  history[#history + 1] = t .. '/' .. id
end

for at = 1, #ARGV, PART do
  local t, id, fence, nonce, outcome, delay, cause = unpack(ARGV, at, at + PART - 1)
  local answer, h = 'l', nil
  local found = redis.pcall('HMGET', job_key(t, id), 's', 'f', 'c', 'q', 'z', 'x', 'k', 'ks', 'kh')
  local claimed = found[2] == fence and found[3] == nonce
  if claimed and found[4] and found[1] == RUNNING and outcome == '0' then
    done(found[4], t, id, found)
    answer = 'a' .. DONE
  elseif claimed then
    h = load(t, id)
  end
  if h then
    if h.s == RUNNING then
      local state = TO[outcome]
      if h.z and outcome ~= '0' then state = CANCELLED end
      local with = { o = outcome }
      if outcome == '1' or outcome == '3' then with.d = after(tonumber(delay)) end
      end_run(h, state, outcome, cause, with)
      change(h, with)
      if state == READY then woken[h.q] = true end
      answer = 'a' .. state
    elseif h.o and not (h.e and tonumber(h.e) + STUB <= NOW) then
      answer = 'r' .. h.o
    end
  end
  answers[#answers + 1] = answer
end
for _, lane in pairs(lanes) do
  local q, t = lane.q, lane.t
  many('ZREM', lease_key(q, t), lane.ids)
  many('ZADD', index_key(DONE, q, t), lane.indexed)
  many('ZADD', history_key(DONE, q), lane.history)
  call('SADD', P .. 'hist', DONE .. '/' .. q)
  count_minute(q, t, 'd', #lane.ids)
end
for q in pairs(woken) do wake(q) end
return answers
