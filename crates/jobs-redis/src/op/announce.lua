-- A worker lives, or says goodbye: its id, itself or empty. Silent ones are forgotten after a minute.
local id, worker = ARGV[1], ARGV[2]
local silent = call('ZRANGE', P .. 'seen', '-inf', NOW - 60000, 'BYSCORE', 'LIMIT', 0, 500)
if worker == '' then silent[#silent + 1] = id end
for _, gone in ipairs(silent) do
  call('ZREM', P .. 'seen', gone)
  call('HDEL', P .. 'workers', gone)
end
if worker ~= '' then
  local since = string.match(call('HGET', P .. 'workers', id) or '', '^%d+') or text(NOW)
  call('HSET', P .. 'workers', id, since .. '|' .. worker)
  call('ZADD', P .. 'seen', NOW, id)
end
return 1
