-- How many done jobs each queue has here, or with arguments the oldest of one: queue, how many. Answers
-- queue, number of each; or end, tenant/id of each.
local reply = {}
if ARGV[1] then return call('ZRANGE', history_key(DONE, ARGV[1]), 0, ARGV[2] - 1, 'WITHSCORES') end
for _, of in ipairs(call('SMEMBERS', P .. 'hist')) do
  local s, q = string.match(of, '^(%d)/(.*)$')
  if s == DONE then
    reply[#reply + 1] = q
    reply[#reply + 1] = call('ZCARD', history_key(s, q))
  end
end
return reply
