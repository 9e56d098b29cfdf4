-- Removes jobs, their keys and history: tenant and id of each (A3).
local answers = {}
for at = 1, #ARGV, 2 do
  local h = load(ARGV[at], ARGV[at + 1])
  local answer = 'd'
  if not h or h.stub then
    answer = 'u'
  elseif h.s == RUNNING and not is_expired(h) then
    answer = 'r'
  else
    take_out(h)
    free_key(h)
    call('DEL', job_key(h.T, h.I), body_key(h.T, h.I), attempts_key(h.T, h.I))
  end
  answers[#answers + 1] = answer
end
return answers
