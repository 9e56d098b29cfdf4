-- Extends leases: how long, then tenant, id, fence, nonce. By the store's clock, from now; the claim
-- stays (S1).
local answers, till = {}, NOW + tonumber(ARGV[1])
for at = 2, #ARGV, 4 do
  local t, id, fence, nonce = unpack(ARGV, at, at + 3)
  local job = job_key(t, id)
  local h = redis.pcall('HMGET', job, 's', 'f', 'c', 'z', 'q')
  if h[1] == RUNNING and h[2] == fence and h[3] == nonce then
    call('HSET', job, 'r', NOW, 'u', till)
    call('ZADD', lease_key(h[5], t), till, id)
    call('ZADD', P .. 'lease', 'LT', till, h[5] .. '/' .. t)
    answers[#answers + 1] = h[4] and 'c' or 'h'
  else
    answers[#answers + 1] = 'l'
  end
end
return answers
