-- Stores jobs: tenant, id, queue, name, priority, max attempts, how run_at is meant, run_at, key's
-- scope, key, body. The id is looked at first, then the key; the first of a batch wins (P2, P3).
local PART = 11
local answers, lines, indexes, woken = {}, {}, {}, {}

local function later_add(all, key, ...)
  local list = all[key]
  if not list then
    list = {}
    all[key] = list
  end
  for _, v in ipairs({ ... }) do list[#list + 1] = v end
end

for at = 1, #ARGV, PART do
  local t, id, q, n, p, m, how, run, ks, k, body = unpack(ARGV, at, at + PART - 1)
  local job = job_key(t, id)
  local stored, holder, held = call('HGET', job, 's'), false, false
  if not stored and ks ~= '0' then
    holder = call('HGET', unique_key(t), k)
    -- A holder that is not there holds nothing.
    held = holder and call('HGET', job_key(t, holder), 's')
  end
  if stored then
    answers[#answers + 1] = 'd' .. stored
  elseif held then
    answers[#answers + 1] = 'k' .. held .. holder
  else
    local due = NOW
    if how == '1' then due = math.max(NOW, tonumber(run)) end
    if how == '2' then due = after(tonumber(run)) end
    local s = due <= NOW and READY or SCHEDULED
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
    answers[#answers + 1] = 's'
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
