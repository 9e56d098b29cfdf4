-- Takes due jobs under a lease: queue, lease, nonce, worker, slots, ahead, how many names, each name
-- and whether it is quick, the round, and the virtual now of each name that is contested, as other
-- shards have it. Answers when the next is due (-1: nobody knows), then nine values a job.
local q, lease, nonce, worker = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local anything, most = tonumber(ARGV[5]), tonumber(ARGV[5]) + tonumber(ARGV[6])
local count = tonumber(ARGV[7])
local names = names_from(8, count)
-- A cluster's shards are asked in rounds, and tell each other how far each name is.
local round, heard = ARGV[8 + 2 * count], {}
for at, name in ipairs(names) do heard[name[1]] = tonumber(ARGV[8 + 2 * count + at]) end
local reply, bodies = { -1 }, {}

local function add(t, id, h)
  for _, value in ipairs({ t, id, h.n, h.p, h.d, h.f, h.a, h.x or '0', '' }) do
    reply[#reply + 1] = value
  end
  bodies[#bodies + 1] = body_key(t, id)
end

local function add_bodies()
  for from = 1, #bodies, 500 do
    local found = call('MGET', unpack(bodies, from, math.min(from + 499, #bodies)))
    for at, body in ipairs(found) do reply[(from + at - 1) * 9 + 1] = body or '' end
  end
  return reply
end

-- R3: what the first call with this nonce took and still holds. Its lease counts from this call, as
-- the worker's own clock does.
local record = P .. 'n/' .. nonce .. '/' .. round
local taken = call('GET', record)
if taken then
  for t, id in string.gmatch(taken, '([^/ ]+)/([^/ ]+)') do
    local h = load(t, id)
    if h and h.s == RUNNING and h.c == nonce then
      local job = job_key(t, id)
      call('HSET', job, 'r', NOW, 'u', NOW + lease)
      call('ZADD', lease_key(h.q, t), NOW + lease, id)
      add(t, id, h)
    end
  end
  return add_bodies()
end

local function now_of(n) return math.max(virtual_now(q, n), heard[n] or 0) end

local picked, empty = {}, 0
end_pauses(q)
local shut = queue_paused(q)
if shut then
  reply[1] = math.min(shut - NOW, 3600000)
else
  promote_all(q, names, most)

  while most > 0 do
    -- The lane that is least ahead of a name's now, and who else has work.
    local classes, contested, best, tenant, lone = {}, {}, nil, nil, true
    local one
    for _, name in ipairs(names) do
      local n, quick, has = name[1], name[2], false
      for _, class in ipairs(classes_for(name, anything)) do
        local heads = call('ZRANGE', ring_key(q, class), 0, 1, 'WITHSCORES')
        if heads[1] then
          has = true
          classes[#classes + 1] = { class, quick and class == n }
          local lag = tonumber(heads[2]) - now_of(n)
          if not best or lag < best then best, tenant = lag, heads[1] end
          lone = lone and not heads[3] and (one == nil or one == heads[1])
          one = heads[1]
        end
      end
      -- Where another shard has work of it, too.
      if has or heard[n] then contested[#contested + 1] = n end
    end
    if not tenant then break end

    -- Its first jobs, of all classes it has.
    local visit = lone and most or math.min(most, LANE_BATCH)
    local queues = {}
    for _, class in ipairs(classes) do
      local line = call('ZRANGE', line_key(q, tenant, class[1]), 0, visit - 1, 'WITHSCORES')
      if line[1] then
        queues[#queues + 1] = { class[1], class[2], line, 1, tonumber(line[2]), {} }
      end
    end
    local visited = 0
    while visited < visit do
      local first
      for _, line in ipairs(queues) do
        local id = line[3][line[4]]
        if id and (anything > 0 or line[2]) then
          if not first or line[5] < first[5] or (line[5] == first[5] and id < first[3][first[4]]) then
            first = line
          end
        end
      end
      if not first then break end
      local id = first[3][first[4]]
      first[6][#first[6] + 1] = id
      first[4] = first[4] + 2
      first[5] = tonumber(first[3][first[4] + 1] or 0)
      if not first[2] then anything = anything - 1 end
      most, visited = most - 1, visited + 1
      picked[#picked + 1] = { tenant, id }
    end
    for _, line in ipairs(queues) do
      if #line[6] > 0 then out_of_line(q, tenant, line[1], line[6]) end
    end
    -- A lane in a ring without a line there: nothing does that, and it must not end in a circle.
    if visited == 0 then
      for _, class in ipairs(classes) do
        if call('EXISTS', line_key(q, tenant, class[1])) == 0 then leave(q, tenant, class[1]) end
      end
      empty = empty + 1
      if empty > 100 then break end
    else
      local settings, queues_own = settings_of(q, tenant), settings_of(q, '*')
      local weight = settings and settings.weight or queues_own and queues_own.weight or 1
      local lag = math.max(0, best)
      for _, n in ipairs(contested) do
        local now = now_of(n)
        local start = math.max(finish_of(q, tenant, n), now)
        local finish = start + visited / weight
        local member = false
        for _, class in ipairs({ n, n .. '!' }) do
          if call('ZSCORE', ring_key(q, class), tenant) then
            call('ZADD', ring_key(q, class), finish, tenant)
            member = true
          end
        end
        -- A lane alone is visited for longer than a batch; time goes on with it, or whoever comes
        -- next would have the length of that visit as credit.
        now = math.max(now + lag, start, finish - LANE_BATCH / weight)
        if not member then call('ZADD', finishes_key(q, n), finish, tenant) end
        call('ZREMRANGEBYSCORE', finishes_key(q, n), '-inf', now)
        call('HSET', now_key(q), n, string.format('%.17g', now))
      end
    end
  end
end

local until_ = NOW + lease
local lanes, refs = {}, {}
for _, ref in ipairs(picked) do
  local t, id = ref[1], ref[2]
  local job = job_key(t, id)
  local f = redis.pcall('HMGET', job, 's', 'n', 'p', 'd', 'f', 'a', 'x', 'k', 'ks', 'kh', 'o')
  local lane = lanes[t]
  if not lane then
    lane = { {}, {} }
    lanes[t] = lane
  end
  lane[2][#lane[2] + 1] = id
  local last_fence, attempts = tonumber(f[5]), tonumber(f[6])
  -- A damaged one is out of line, and met no more.
  if f[1] == READY and f[2] and tonumber(f[3]) and tonumber(f[4]) and last_fence and attempts then
    local fence, attempt = text(last_fence + 1), text(attempts + 1)
    call('HSET', job, 's', RUNNING, 'c', nonce, 'f', fence, 'a', attempt,
      'w', worker, 'b', NOW, 'r', NOW, 'u', until_)
    if f[11] then call('HDEL', job, 'o') end
    if f[9] == '2' then
      keep_or_free_key({ T = t, I = id, s = RUNNING, k = f[8], ks = f[9], kh = f[10] or nil })
    end
    lane[1][#lane[1] + 1] = until_
    lane[1][#lane[1] + 1] = id
    refs[#refs + 1] = t .. '/' .. id
    add(t, id, { n = f[2], p = f[3], d = f[4], f = fence, a = attempt, x = f[7] })
  end
end
for t, lane in pairs(lanes) do
  many('ZREM', index_key(READY, q, t), lane[2])
  if lane[1][1] then
    many('ZADD', lease_key(q, t), lane[1])
    call('ZADD', P .. 'lease', 'LT', until_, q .. '/' .. t)
  end
end
if #refs > 0 then
  call('SET', record, table.concat(refs, ' '), 'PX', math.max(lease, 60000))
end

if most > 0 and not shut then reply[1] = next_due(q, names) end
return add_bodies()
