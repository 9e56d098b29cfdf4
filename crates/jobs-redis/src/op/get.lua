-- Looks at jobs: whether with their attempts, then tenant and id of each. Answers now, then of each its
-- hash, its body, its newest cause and its attempts.
local full, reply = ARGV[1] == '1', { NOW }
for at = 2, #ARGV, 2 do
  local t, id = ARGV[at], ARGV[at + 1]
  local hash = call('HGETALL', job_key(t, id))
  if #hash == 0 then
    reply[#reply + 1] = 0
  else
    local attempts = {}
    for _, packed in ipairs(call('LRANGE', attempts_key(t, id), full and 0 or -1, -1)) do
      attempts[#attempts + 1] = cmsgpack.unpack(packed)
    end
    reply[#reply + 1] = { hash, call('GET', body_key(t, id)) or '', attempts }
  end
end
return reply
