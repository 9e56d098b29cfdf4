-- What every script begins with: the keys of one shard, and the only ways to move a job between them.
--
-- KEYS[1] always exists once migrated and KEYS[2] never does, both in the shard's slot. While the slot
-- moves to another node, key by key, the server sees that one of the two is missing and answers
-- TRYAGAIN, so that no script runs on half of a shard, whatever keys it derives.
-- Numbers: milliseconds and scores are below 2^53 and are passed to the server as numbers, which keeps
-- them exact; `..` keeps only 14 digits. Fences and nonces stay text and are compared as text.
local call = redis.call
local P = string.sub(KEYS[1], 1, -5)
if call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('JOBSSCHEMA there is no jobs store here')
end
local time = call('TIME')
local NOW = time[1] * 1000 + math.floor(time[2] / 1000)

-- Where each part is. `/` is in neither alphabet (G5), so no key built from names is ambiguous.
local function job_key(t, id) return P .. 'j/' .. t .. '/' .. id end
local function body_key(t, id) return P .. 'b/' .. t .. '/' .. id end
local function attempts_key(t, id) return P .. 'a/' .. t .. '/' .. id end
local function unique_key(t) return P .. 'u/' .. t end
-- A lane's due jobs of a class, best first. A class is a name, or a name and `!` for suspects (R7).
local function line_key(q, t, c) return P .. 'r/' .. q .. '/' .. t .. '/' .. c end
local function classes_key(q, t) return P .. 'c/' .. q .. '/' .. t end
-- A lane's jobs of one state by id, for lists and counts; running ones are in `lease_key`.
local function index_key(s, q, t) return P .. 'i/' .. s .. '/' .. q .. '/' .. t end
local function lease_key(q, t) return P .. 'l/' .. q .. '/' .. t end
local function later_key(q, t, n) return P .. 's/' .. q .. '/' .. t .. '/' .. n end
local function later_names_key(q, t) return P .. 'sn/' .. q .. '/' .. t end
local function later_lanes_key(q, n) return P .. 'sl/' .. q .. '/' .. n end
local function ring_key(q, c) return P .. 'ring/' .. q .. '/' .. c end
local function finishes_key(q, n) return P .. 'fin/' .. q .. '/' .. n end
local function now_key(q) return P .. 'now/' .. q end
local function paused_key(q) return P .. 'pz/' .. q end
local function settings_key(q) return P .. 'cfg/' .. q end
local function history_key(s, q) return P .. 'h/' .. s .. '/' .. q end
local function minutes_key(q, t) return P .. 'm/' .. q .. '/' .. t end

local SCHEDULED, READY, RUNNING, PARKED, DONE, CANCELLED = '0', '1', '2', '3', '4', '5'
local LOST = '6'
local LOST_CAUSE = 'the lease ran out without a renewal'
local MAX_MILLIS = 7289654399999
local STUB = 120000
local KEPT_ATTEMPTS = 100
local LANE_BATCH = 8

local function text(v) return type(v) == 'number' and string.format('%.0f', v) or v end
local function after(delay) return math.min(NOW + delay, MAX_MILLIS) end
-- Priority first, then due time: 8 bits and 43, exact in a double. Ids break ties by being members.
local function place(p, d) return -p * 8796093022208 + (d - 1577836800000) end
local function name_of(class) return (string.gsub(class, '!$', '')) end

-- The server's own limit of one command's arguments is far above; Lua's stack is not.
local function many(command, key, args)
  for from = 1, #args, 1000 do
    call(command, key, unpack(args, from, math.min(from + 999, #args)))
  end
end

-- Start-time fair queueing by name, as docs/ARCHITECTURE.md has it.

local function virtual_now(q, n) return tonumber(call('HGET', now_key(q), n) or '0') end

-- Where a lane's last visit at a name ended in virtual time, if anybody remembers.
local function finish_of(q, t, n)
  return tonumber(call('ZSCORE', ring_key(q, n), t) or call('ZSCORE', ring_key(q, n .. '!'), t)
    or call('ZSCORE', finishes_key(q, n), t) or '0')
end

-- A lane has work of a class: it stands in line, with no credit for having been idle.
local function enter(q, t, c)
  call('SADD', classes_key(q, t), c)
  if call('ZSCORE', paused_key(q), t) then return end
  local n = name_of(c)
  local finish = math.max(finish_of(q, t, n), virtual_now(q, n))
  call('ZADD', ring_key(q, c), finish, t)
  call('ZREM', finishes_key(q, n), t)
end

local function leave_ring(q, t, c)
  local n = name_of(c)
  local finish = finish_of(q, t, n)
  if call('ZREM', ring_key(q, c), t) == 1 and finish > virtual_now(q, n) then
    local other = c == n and n .. '!' or n
    if not call('ZSCORE', ring_key(q, other), t) then
      call('ZADD', finishes_key(q, n), finish, t)
    end
  end
end

local function leave(q, t, c)
  leave_ring(q, t, c)
  call('SREM', classes_key(q, t), c)
end

-- `places` is score, id, score, id, …
local function line_up(q, t, c, places)
  local line = line_key(q, t, c)
  local was = call('EXISTS', line)
  many('ZADD', line, places)
  if was == 0 then enter(q, t, c) end
end

local function out_of_line(q, t, c, ids)
  local line = line_key(q, t, c)
  many('ZREM', line, ids)
  if call('EXISTS', line) == 0 then leave(q, t, c) end
end

-- What is not due yet, by name and lane. The two upper levels hold lower bounds, mended where they
-- are read, so that nothing is scanned.

local function schedule(q, t, n, id, due)
  call('ZADD', later_key(q, t, n), due, id)
  call('ZADD', later_lanes_key(q, n), 'LT', due, t)
  call('ZADD', P .. 'due', 'LT', due, q .. '/' .. n)
  call('SADD', later_names_key(q, t), n)
end

local function forget_later(q, t, n)
  if call('EXISTS', later_key(q, t, n)) == 0 then
    call('SREM', later_names_key(q, t), n)
    call('ZREM', later_lanes_key(q, n), t)
    if call('EXISTS', later_lanes_key(q, n)) == 0 then call('ZREM', P .. 'due', q .. '/' .. n) end
  end
end

-- Puts what came due of a name in line: up to `each` of a lane, so that no crowd hides another
-- lane's one job, and `most` in all. A lane that has more stays due, behind the others. With `fill` a
-- lane's line is only filled up to `each`, by a few at least: one of them may be urgent. Answers how
-- many, and whether there were more lanes than it looked at.
local function promote(q, n, each, most, fill)
  local lanes_key, promoted = later_lanes_key(q, n), 0
  local lanes = call('ZRANGE', lanes_key, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 50)
  for _, t in ipairs(lanes) do
    local later = later_key(q, t, n)
    local room = math.min(each, most - promoted)
    if fill then room = math.min(room, math.max(20, each - call('ZCARD', line_key(q, t, n)))) end
    local ids = {}
    if room > 0 then ids = call('ZRANGE', later, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, room) end
    local lines, indexed = {}, {}
    for _, id in ipairs(ids) do
      local job = job_key(t, id)
      local h = redis.pcall('HMGET', job, 's', 'p', 'd', 'x')
      if h[1] == SCHEDULED and tonumber(h[2]) and tonumber(h[3]) then
        local class = h[4] and n .. '!' or n
        local places = lines[class] or {}
        lines[class] = places
        places[#places + 1] = place(tonumber(h[2]), tonumber(h[3]))
        places[#places + 1] = id
        indexed[#indexed + 1] = 0
        indexed[#indexed + 1] = id
        call('HSET', job, 's', READY)
      end
    end
    if #ids > 0 then
      many('ZREM', later, ids)
      many('ZREM', index_key(SCHEDULED, q, t), ids)
      if indexed[1] then many('ZADD', index_key(READY, q, t), indexed) end
      for class, places in pairs(lines) do line_up(q, t, class, places) end
      promoted = promoted + #ids
    end
    local head = call('ZRANGE', later, 0, 0, 'WITHSCORES')
    if head[2] then
      call('ZADD', lanes_key, math.max(tonumber(head[2]), NOW), t)
    else
      forget_later(q, t, n)
    end
    if promoted >= most then break end
  end
  local head = call('ZRANGE', lanes_key, 0, 0, 'WITHSCORES')
  if head[2] then
    call('ZADD', P .. 'due', head[2], q .. '/' .. n)
  else
    call('ZREM', P .. 'due', q .. '/' .. n)
  end
  return promoted, #lanes == 50
end

-- One job. `h` is its hash, with its tenant as T and its id as I. One that was damaged by hand is as
-- good as none: a script that fails at it would leave the others of its call half done.

local function load(t, id)
  local flat = redis.pcall('HGETALL', job_key(t, id))
  if flat.err or #flat == 0 then return nil end
  local h = { T = t, I = id }
  for at = 1, #flat, 2 do h[flat[at]] = flat[at + 1] end
  local whole = h.s and h.q and h.n and tonumber(h.f)
  if not h.stub then
    whole = whole and tonumber(h.a) and tonumber(h.m) and tonumber(h.p) and tonumber(h.d)
  end
  return whole and h or nil
end

local function class_of(h) return h.x and h.n .. '!' or h.n end

local function take_out(h)
  local q, t, id, s = h.q, h.T, h.I, h.s
  if s == RUNNING then
    call('ZREM', lease_key(q, t), id)
    return
  end
  if s == READY then out_of_line(q, t, class_of(h), { id }) end
  if s == SCHEDULED then
    call('ZREM', later_key(q, t, h.n), id)
    forget_later(q, t, h.n)
  end
  if s == DONE or s == CANCELLED then call('ZREM', history_key(s, q), t .. '/' .. id) end
  call('ZREM', index_key(s, q, t), id)
end

local function put_in(h)
  local q, t, id, s = h.q, h.T, h.I, h.s
  if s == READY then line_up(q, t, class_of(h), { place(tonumber(h.p), tonumber(h.d)), id }) end
  if s == SCHEDULED then schedule(q, t, h.n, id, tonumber(h.d)) end
  if s == DONE or s == CANCELLED then
    call('ZADD', history_key(s, q), h.e, t .. '/' .. id)
    call('SADD', P .. 'hist', s .. '/' .. q)
  end
  call('ZADD', index_key(s, q, t), 0, id)
end

local function free_key(h)
  if h.k and h.kh and call('HGET', unique_key(h.T), h.k) == h.I then
    call('HDEL', unique_key(h.T), h.k)
  end
end

-- P3: until-finished (1) is held while live, parked included; until-started (2) from the push to the
-- first delivery, and never taken again.
local function keep_or_free_key(h)
  if not h.k then return end
  local holds
  if h.ks == '2' then
    holds = h.kh and (h.s == SCHEDULED or h.s == READY)
  else
    holds = h.s ~= DONE and h.s ~= CANCELLED
  end
  if holds and not h.kh then
    call('HSET', unique_key(h.T), h.k, h.I)
    call('HSET', job_key(h.T, h.I), 'kh', '1')
    h.kh = '1'
  elseif h.kh and not holds then
    free_key(h)
    call('HDEL', job_key(h.T, h.I), 'kh')
    h.kh = nil
  end
end

-- Changes a job's fields, `false` for none, and moves it to where its new state is looked for.
local function change(h, with)
  take_out(h)
  local set, gone = {}, {}
  for field, value in pairs(with) do
    if value == false then
      if h[field] then gone[#gone + 1] = field end
      h[field] = nil
    else
      h[field] = text(value)
      set[#set + 1] = field
      set[#set + 1] = h[field]
    end
  end
  local job = job_key(h.T, h.I)
  if #set > 0 then call('HSET', job, unpack(set)) end
  if #gone > 0 then call('HDEL', job, unpack(gone)) end
  keep_or_free_key(h)
  put_in(h)
end

local function is_expired(h) return h.s == RUNNING and (tonumber(h.u) or 0) <= NOW end

-- More ended in this minute: `d` done, `x` failed.
local function count_minute(q, t, kind, count)
  local key, minute = minutes_key(q, t), NOW - NOW % 60000
  if call('HINCRBY', key, text(minute) .. kind, count) == count then
    call('PEXPIRE', key, 2 * 3600000)
    if call('HLEN', key) > 130 then
      for _, field in ipairs(call('HKEYS', key)) do
        if tonumber(string.sub(field, 1, -2)) < minute - 3600000 then call('HDEL', key, field) end
      end
    end
  end
end

-- A delivery is over. Adds to `with` what becomes of the job: its attempt goes on record or is given
-- back (S4). A done job's last attempt is told by its hash alone, which costs no statement.
local function end_run(h, state, outcome, cause, with)
  with.s, with.z, with.u, with.r = state, false, false, false
  if outcome == '4' then
    with.rl, with.a = tonumber(h.rl or 0) + 1, tonumber(h.a) - 1
  elseif outcome == '3' then
    with.sn, with.a = tonumber(h.sn or 0) + 1, tonumber(h.a) - 1
  else
    with.x = outcome == LOST and '1' or false
    if outcome ~= '0' then
      local key = attempts_key(h.T, h.I)
      call('RPUSH', key, cmsgpack.pack({ h.a, h.f, h.w, h.b, text(NOW), outcome, cause }))
      call('LTRIM', key, -KEPT_ATTEMPTS, -1)
    end
  end
  if outcome ~= '0' then with.w, with.b = false, false end
  if state == DONE or state == CANCELLED then with.e = NOW end
  -- What an operator cancelled did not fail, unless its holder was lost.
  if state == CANCELLED and outcome ~= LOST then return end
  if outcome == '0' then
    count_minute(h.q, h.T, 'd', 1)
  elseif outcome == '1' or outcome == '2' or outcome == LOST then
    count_minute(h.q, h.T, 'x', 1)
  end
end

-- The holder was silent: its attempt is on record as lost, its claim stale.
local function lose(h, state, with)
  end_run(h, state, LOST, LOST_CAUSE, with)
  with.c, with.o = false, false
end

local function know_lane(q, t)
  if not call('ZSCORE', P .. 'lanes', q .. '/' .. t) then
    call('ZADD', P .. 'lanes', 0, q .. '/' .. t)
    call('ZADD', P .. 'tenants', 0, t .. '/' .. q)
  end
end

-- A hint to whoever waits, at once and then for 50 ms no more: listeners look again after that. The key
-- ends by the wall clock; where that was set back, it is from the future, and has nothing to say.
local function wake(q)
  local key = P .. 'wake/' .. q
  local last = call('SET', key, NOW, 'NX', 'GET', 'PX', 50)
  if last and (tonumber(last) or 0) <= NOW then return end
  if last then call('SET', key, NOW, 'PX', 50) end
  call('SPUBLISH', P .. 'wake', q)
end

-- A lane's settings, or with `*` for the tenant its queue's: weight|paused until|verb|when|who.
local function settings_of(q, t)
  local stored = call('HGET', settings_key(q), t)
  if not stored then return nil end
  local weight, paused, verb, at, by = string.match(stored, '^(%d*)|(%d*)|(%a*)|(%d*)|(.*)$')
  return { weight = tonumber(weight), paused = tonumber(paused), verb = verb, at = tonumber(at), by = by }
end

local function queue_paused(q)
  local settings = settings_of(q, '*')
  return settings and settings.paused and settings.paused > NOW and settings.paused
end

-- Lanes whose pause is over stand in line again.
local function resume(q, t)
  call('ZREM', paused_key(q), t)
  for _, c in ipairs(call('SMEMBERS', classes_key(q, t))) do enter(q, t, c) end
end

local function end_pauses(q)
  for _, t in ipairs(call('ZRANGE', paused_key(q), '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 100)) do
    resume(q, t)
  end
end
