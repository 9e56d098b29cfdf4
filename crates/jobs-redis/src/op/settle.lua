-- Ends runs: tenant, id, fence, nonce, outcome, delay, cause. The whole claim is compared, and time is
-- not: an expired claim is held until somebody has taken or freed its job (S2). In order, so that
-- inside one batch the first for a claim wins (S3).
local PART = 7
local answers = {}
local TO = { ['0'] = DONE, ['1'] = SCHEDULED, ['2'] = PARKED, ['3'] = SCHEDULED, ['4'] = READY, ['5'] = CANCELLED }
local woken = {}
for at = 1, #ARGV, PART do
  local t, id, fence, nonce, outcome, delay, cause = unpack(ARGV, at, at + PART - 1)
  local h = load(t, id)
  local answer = 'l'
  if h and h.f == fence and h.c == nonce then
    if h.s == RUNNING then
      local state = TO[outcome]
      if h.z and outcome ~= '0' then state = CANCELLED end
      local with = { o = outcome }
      if outcome == '1' or outcome == '3' then with.d = after(tonumber(delay)) end
      end_run(h, state, outcome, cause, with)
      change(h, with)
      if state == READY then woken[h.q] = true end
      answer = 'a' .. state
    elseif h.o and not (h.e and tonumber(h.e) + STUB <= NOW) then
      answer = 'r' .. h.o
    end
  end
  answers[#answers + 1] = answer
end
for q in pairs(woken) do wake(q) end
return answers
