-- Ends jobs without their work: who, then tenant and id of each. At once where nobody runs it, else
-- its holder is asked (A3).
local by, answers = ARGV[1], {}
for at = 2, #ARGV, 2 do
  local h = load(ARGV[at], ARGV[at + 1])
  local answer
  if not h or h.stub then
    answer = 'u'
  elseif h.s == DONE or h.s == CANCELLED then
    answer = 'n' .. h.s
  elseif h.s == RUNNING and not is_expired(h) then
    call('HSET', job_key(h.T, h.I), 'z', '1', 'vv', 'cancel', 'vb', by, 'va', NOW)
    answer = 'r'
  else
    local with = { c = false, o = false }
    if h.s == RUNNING then lose(h, CANCELLED, with) end
    with.s, with.e, with.f = CANCELLED, NOW, tonumber(h.f) + 1
    with.vv, with.vb, with.va = 'cancel', by, NOW
    change(h, with)
    answer = 'c'
  end
  answers[#answers + 1] = answer
end
return answers
