-- Puts parked and cancelled jobs back in line: who, then tenant and id of each. Due now, attempts from
-- the start, the key taken again (A3, P3).
local by, answers, woken = ARGV[1], {}, {}
for at = 2, #ARGV, 2 do
  local h = load(ARGV[at], ARGV[at + 1])
  local answer
  if not h or h.stub then
    answer = 'u'
  elseif h.s ~= PARKED and h.s ~= CANCELLED then
    answer = 'n' .. h.s
  else
    local holder, state
    if h.k and h.ks == '1' and not h.kh then
      holder = call('HGET', unique_key(h.T), h.k)
      state = holder and call('HGET', job_key(h.T, holder), 's')
    end
    if state then
      answer = 'k' .. state .. holder
    else
      change(h, { s = READY, d = NOW, e = false, a = 0, vv = 'retry', vb = by, va = NOW })
      woken[h.q] = true
      answer = 'r'
    end
  end
  answers[#answers + 1] = answer
end
for q in pairs(woken) do wake(q) end
return answers
