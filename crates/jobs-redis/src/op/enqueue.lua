-- Stores jobs: tenant, id, queue, name, priority, max attempts, how run_at is meant, run_at, key's
-- scope, key, body. The id is looked at first, then the key; the first of a batch wins (P2, P3).
local PART = 11
local answers, dues, mine, keys = {}, {}, {}, {}

-- A hash's field, as text; `false` where there is none, and 'w' in `damage` where there is no hash.
local damage
local function look(key, field)
  local found = redis.pcall('HGET', key, field)
  if type(found) ~= 'table' then return found end
  damage = 'w'
  return false
end

-- Everything is looked at before anything is written: a damaged key is the answer of its own job, where
-- a script that failed at it would leave the jobs before it in no line.
for at = 1, #ARGV, PART do
  local t, id, how, run = ARGV[at], ARGV[at + 1], ARGV[at + 6], ARGV[at + 7]
  local job, due = job_key(t, id), NOW
  damage = nil
  local stored, held = mine[job] or look(job, 's'), false
  local key = ARGV[at + 8] ~= '0' and t .. '/' .. ARGV[at + 9]
  if key and not stored and not damage then
    held = keys[key]
    local holder = not held and look(unique_key(t), ARGV[at + 9])
    if holder then
      -- A holder that is not there holds nothing.
      local state = look(job_key(t, holder), 's')
      held = state and state .. holder
    end
  end
  if how == '1' then due = math.max(NOW, tonumber(run)) end
  if how == '2' then due = after(tonumber(run)) end
  local answer = damage or stored and 'd' .. stored or held and 'k' .. held
  if not answer then
    local s = due <= NOW and READY or SCHEDULED
    answer, mine[job] = 's', s
    if key then keys[key] = s .. id end
  end
  answers[#answers + 1], dues[#dues + 1] = answer, due
end

local lines, indexes, woken = {}, {}, {}
local function later_add(all, key, score, id)
  local list = all[key]
  if not list then
    list = {}
    all[key] = list
  end
  list[#list + 1] = score
  list[#list + 1] = id
end

for nth, answer in ipairs(answers) do
  if answer == 's' then
    local at, due = (nth - 1) * PART + 1, dues[nth]
    local t, id, q, n, p, m, _, _, ks, k, body = unpack(ARGV, at, at + PART - 1)
    local job, s = job_key(t, id), due <= NOW and READY or SCHEDULED
    call('HSET', job, 'q', q, 'n', n, 's', s, 'p', p, 'd', due, 'm', m, 'a', '0', 'f', '0', 't', NOW)
    call('SET', body_key(t, id), body)
    if ks ~= '0' then
      call('HSET', job, 'k', k, 'ks', ks, 'kh', '1')
      call('HSET', unique_key(t), k, id)
    end
    local lane = q .. '/' .. t
    later_add(indexes, s .. '/' .. lane, 0, id)
    if s == READY then
      later_add(lines, lane .. '/' .. n, place(tonumber(p), due), id)
      woken[q] = true
    else
      schedule(q, t, n, id, due)
    end
  end
end

for key, members in pairs(indexes) do
  many('ZADD', P .. 'i/' .. key, members)
  local q, t = string.match(key, '^%d/([^/]*)/([^/]*)$')
  know_lane(q, t)
end
for key, places in pairs(lines) do
  local q, t, n = string.match(key, '^([^/]*)/([^/]*)/([^/]*)$')
  line_up(q, t, n, places)
end
for q in pairs(woken) do wake(q) end
return answers
