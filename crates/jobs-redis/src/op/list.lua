-- The newest jobs of some lanes: queue or empty, tenant or empty, their states, the cursor's id and
-- tenant or empty, how many, after which lane. Answers where to go on with lanes, then tenant and id of
-- each, newest first. A job is in one state's index, so one call meets it once.
local queue, tenant, states, last_id, last_tenant = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local most = tonumber(ARGV[6])
local LANES = 200
local lanes, next_lane = lanes_after(queue, tenant, ARGV[7], LANES)

local function older(t, id)
  return last_id == '' or id < last_id or (id == last_id and t < last_tenant)
end

-- Of each index a few of its newest, and more where they run out.
local sources = {}
local few = #lanes * #states > 8 and 8 or most

local function refill(source)
  local high = source.last and '(' .. source.last
    or last_id == '' and '+' or (source.t < last_tenant and '[' or '(') .. last_id
  source.ids, source.at = call('ZRANGE', source.key, high, '-', 'BYLEX', 'REV', 'LIMIT', 0, few), 1
  source.last = source.ids[#source.ids]
end

for _, lane in ipairs(lanes) do
  local q, t = string.match(lane, '^([^/]*)/([^/]*)$')
  for s in string.gmatch(states, '%d') do
    local source = { t = t, key = index_key(s, q, t), at = 1 }
    if s == RUNNING then
      -- By the end of their leases: as many as run at once are few enough to sort.
      source.ids, source.whole = {}, true
      for _, id in ipairs(call('ZRANGE', lease_key(q, t), 0, -1)) do
        if older(t, id) then source.ids[#source.ids + 1] = id end
      end
      table.sort(source.ids, function(a, b) return a > b end)
    else
      refill(source)
    end
    if source.ids[1] then sources[#sources + 1] = source end
  end
end

-- A heap, the newest on top.
local function before(a, b)
  local one, other = a.ids[a.at], b.ids[b.at]
  return one > other or (one == other and a.t > b.t)
end
local function sink(at)
  while true do
    local top = at
    for child = 2 * at, 2 * at + 1 do
      if sources[child] and before(sources[child], sources[top]) then top = child end
    end
    if top == at then return end
    sources[at], sources[top] = sources[top], sources[at]
    at = top
  end
end
for at = math.floor(#sources / 2), 1, -1 do sink(at) end

local reply = { next_lane }
for _ = 1, most do
  local source = sources[1]
  if not source then break end
  reply[#reply + 1] = source.t
  reply[#reply + 1] = source.ids[source.at]
  source.at = source.at + 1
  if not source.ids[source.at] and not source.whole then refill(source) end
  if not source.ids[source.at] then
    sources[1] = sources[#sources]
    sources[#sources] = nil
  end
  if sources[1] then sink(1) end
end
return reply
