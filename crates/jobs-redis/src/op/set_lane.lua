-- Changes a lane's settings, or with `*` for the tenant its queue's: queue, tenant, weight or empty,
-- how to pause (0 leave it, 1 on, 2 for so long, 3 off), how long, verb, who.
local q, t, weight, how, length, verb, by = unpack(ARGV, 1, 7)
local own = settings_of(q, t)
if not own and weight == '' and how == '3' then
  -- Lifting what nobody set makes no lane of which nobody knows.
  local known = t ~= '*' and call('ZSCORE', P .. 'lanes', q .. '/' .. t)
  if t == '*' then
    known = call('ZRANGE', P .. 'lanes', '[' .. q .. '/', '(' .. q .. '0', 'BYLEX', 'LIMIT', 0, 1)[1]
  end
  if not known then return 0 end
end
local paused = own and own.paused
if how == '1' then paused = MAX_MILLIS end
if how == '2' then paused = after(tonumber(length)) end
if how == '3' then paused = nil end
if weight == '' then weight = own and own.weight and text(own.weight) or '' end
call('HSET', settings_key(q), t, weight .. '|' .. (paused and text(paused) or '') .. '|' .. verb .. '|'
  .. text(NOW) .. '|' .. by)
if t ~= '*' then
  know_lane(q, t)
  if paused and paused > NOW then
    call('ZADD', paused_key(q), paused, t)
    for _, c in ipairs(call('SMEMBERS', classes_key(q, t))) do leave_ring(q, t, c) end
  elseif call('ZSCORE', paused_key(q), t) then
    resume(q, t)
  end
end
wake(q)
return 1
