-- The workers that announced themselves within a minute: id, last seen, first seen and itself of each.
local reply = {}
local alive = call('ZRANGE', P .. 'seen', '(' .. text(NOW - 60000), '+inf', 'BYSCORE', 'WITHSCORES')
for at = 1, #alive, 2 do
  local since, worker = string.match(call('HGET', P .. 'workers', alive[at]) or '', '^(%d+)|(.*)$')
  if since then
    for _, value in ipairs({ alive[at], alive[at + 1], since, worker }) do reply[#reply + 1] = value end
  end
end
return reply
