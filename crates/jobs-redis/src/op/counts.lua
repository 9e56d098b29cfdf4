-- Counts some lanes: queue or empty, tenant or empty, after which lane, how many. Answers where to go
-- on, then of each lane: queue, tenant, whether it has live jobs or settings, scheduled, waiting,
-- running, parked, due since (-1: none), weight, paused until, verb, when, who, and its minutes.
local lanes, next_lane = lanes_after(ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]))
local reply = { next_lane }
-- Most looks for the longest-waiting of one lane, names times priorities in use; after as many over all
-- its lanes the script ends, and another goes on.
local LOOKS = 5000
local of_queues, looked = {}, 0

local function oldest_in_line(q, t)
  local oldest, looks = nil, 0
  for _, class in ipairs(call('SMEMBERS', classes_key(q, t))) do
    -- The first of each priority: in one priority the longest-waiting comes first.
    local from = '-inf'
    while looks < LOOKS do
      looks = looks + 1
      local head = call('ZRANGE', line_key(q, t, class), from, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
      if not head[1] then break end
      local score = tonumber(head[2])
      local band = math.floor((score + 1577836800000 - 1) / 8796093022208)
      local h = call('HMGET', job_key(t, head[1]), 'd', 'p')
      local due = tonumber(h[1] or NOW)
      if not oldest or due < oldest then oldest = due end
      from = '(' .. text(place(tonumber(h[2] or -band) - 1, 1577836800000) - 4398046511104)
    end
  end
  looked = looked + looks
  return oldest
end

for nth, lane in ipairs(lanes) do
  local q, t = string.match(lane, '^([^/]*)/([^/]*)$')
  local scheduled, waiting, oldest = 0, call('ZCARD', index_key(READY, q, t)), nil
  local function waits(due)
    if due and due <= NOW and (not oldest or due < oldest) then oldest = due end
  end
  if waiting > 0 then waits(oldest_in_line(q, t)) end
  for _, n in ipairs(call('SMEMBERS', later_names_key(q, t))) do
    local later = later_key(q, t, n)
    looked = looked + 1
    local due = call('ZCOUNT', later, '-inf', NOW)
    waiting, scheduled = waiting + due, scheduled + call('ZCARD', later) - due
    if due > 0 then waits(tonumber(call('ZRANGE', later, 0, 0, 'WITHSCORES')[2])) end
  end
  local leases = lease_key(q, t)
  local expired = call('ZCOUNT', leases, '-inf', NOW)
  local running = call('ZCARD', leases) - expired
  if expired > 0 then
    waiting = waiting + expired
    for _, id in ipairs(call('ZRANGE', leases, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, LOOKS)) do
      waits(tonumber(call('HGET', job_key(t, id), 'd')))
    end
  end
  local parked = call('ZCARD', index_key(PARKED, q, t))
  local minutes = call('HGETALL', minutes_key(q, t))
  local settings = settings_of(q, t)
  local counted = settings or scheduled + waiting + running + parked > 0
  if counted or #minutes > 0 then
    if of_queues[q] == nil then of_queues[q] = settings_of(q, '*') or false end
    local of_queue = of_queues[q] or {}
    local own = settings or {}
    local paused = math.max(own.paused or 0, of_queue.paused or 0)
    local newer = (own.at or -1) >= (of_queue.at or -1) and own or of_queue
    reply[#reply + 1] = {
      q, t, counted and 1 or 0, scheduled, waiting, running, parked, oldest or -1,
      own.weight or of_queue.weight or 1, paused > NOW and paused or -1,
      newer.verb or '', newer.at or -1, newer.by or '', minutes, NOW,
    }
  end
  if looked >= LOOKS and nth < #lanes then
    reply[1] = ARGV[2] ~= '' and t .. '/' .. q or lane
    break
  end
end
return reply
