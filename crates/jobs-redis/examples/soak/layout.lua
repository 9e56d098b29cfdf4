-- Everything of a shard, job by job: each is where its state says, and nowhere else.
local wrong = {}
local function tell(what, t, id)
  if #wrong < 20 then wrong[#wrong + 1] = t .. '/' .. id .. ' ' .. what end
end

local cursor = '0'
local seen = {}
repeat
  local page = call('SCAN', cursor, 'MATCH', P .. 'j/*', 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local t, id = string.match(string.sub(key, #P + 1), '^j/([^/]*)/([^/]*)$')
    if not seen[key] then
      seen[key] = true
      local h = load(t, id)
      local q = h.q
      if not h.stub then
        for _, s in ipairs({ SCHEDULED, READY, PARKED, DONE, CANCELLED }) do
          local listed = call('ZSCORE', index_key(s, q, t), id)
          if (h.s == s) ~= (listed and true or false) then tell('is ' .. h.s .. ' and in the index of ' .. s, t, id) end
        end
        local lease = call('ZSCORE', lease_key(q, t), id)
        if (h.s == RUNNING) ~= (lease and true or false) then tell('has a lease and is ' .. h.s, t, id) end
        if lease and lease ~= h.u then tell('has two ends of its lease', t, id) end
        local line = call('ZSCORE', line_key(q, t, class_of(h)), id)
        if (h.s == READY) ~= (line and true or false) then tell('is in line and ' .. h.s, t, id) end
        local later = call('ZSCORE', later_key(q, t, h.n), id)
        if (h.s == SCHEDULED) ~= (later and true or false) then tell('waits to be due and is ' .. h.s, t, id) end
        local history = call('ZSCORE', history_key(h.s, q), t .. '/' .. id)
        local ended = h.s == DONE or h.s == CANCELLED
        if ended ~= (history and true or false) then tell('is in history and ' .. h.s, t, id) end
        if ended ~= (h.e and true or false) then tell('says when it ended and is ' .. h.s, t, id) end
        if call('EXISTS', body_key(t, id)) == 0 then tell('has no body', t, id) end
        if h.k then
          local holder = call('HGET', unique_key(t), h.k)
          if (holder == id) ~= (h.kh and true or false) then tell('holds its key or not', t, id) end
          if h.ks == '1' and (h.kh and true or false) == ended then tell('holds its key and is ' .. h.s, t, id) end
        end
        if h.s == READY and not call('ZSCORE', paused_key(q), t)
          and not call('ZSCORE', ring_key(q, class_of(h)), t) then
          tell('is in a line that is in no ring', t, id)
        end
        if not call('ZSCORE', P .. 'lanes', q .. '/' .. t) then tell('is in a lane that nobody knows', t, id) end
        if h.s == RUNNING and not call('ZSCORE', P .. 'lease', q .. '/' .. t) then
          tell('is in a lane that no sweep looks at', t, id)
        end
        if tonumber(h.a) > tonumber(h.m) then tell('has more attempts than it may', t, id) end
      end
    end
  end
until cursor == '0'
return wrong
