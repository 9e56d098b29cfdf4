-- Who has work on this shard, for a reserve over several: queue, nonce, slots, ahead, how many names,
-- each name and whether it is quick, the round. Answers which rounds of this nonce took something here, when the
-- next is due (-1: nobody knows), each name's virtual now, and of the lanes that are next: tenant,
-- weight, how many jobs, and of each name where its last visit ended, or -1 without work of it.
local q, nonce, anything = ARGV[1], ARGV[2], tonumber(ARGV[3])
local most = anything + tonumber(ARGV[4])
local names = names_from(6, tonumber(ARGV[5]))
-- Most lanes told: what they have less than is wished is asked for in another round.
local LANES = 64

local rounds = ''
-- What the first round finds was taken before; what a later one finds is its own call's.
for round = 0, ARGV[6 + 2 * #names] == '0' and 9 or -1 do
  if call('EXISTS', P .. 'n/' .. nonce .. '/' .. round) == 1 then rounds = rounds .. round end
end
if rounds ~= '' then return { rounds } end

end_pauses(q)
local shut = queue_paused(q)
if shut then return { '', math.min(shut - NOW, 3600000), {} } end
promote_all(q, names, most)

local nows, lanes, order = {}, {}, {}
for at, name in ipairs(names) do
  nows[at] = string.format('%.17g', virtual_now(q, name[1]))
  for _, class in ipairs(classes_for(name, anything)) do
    local heads = call('ZRANGE', ring_key(q, class), 0, math.min(most, LANES) - 1, 'WITHSCORES')
    for head = 1, #heads, 2 do
      local t = heads[head]
      local lane = lanes[t]
      if not lane then
        lane = { 0, {} }
        lanes[t] = lane
        order[#order + 1] = t
      end
      lane[1] = lane[1] + call('ZCARD', line_key(q, t, class))
      lane[2][at] = heads[head + 1]
    end
  end
end
local reply, of_queue = { '', next_due(q, names), nows }, settings_of(q, '*')
for _, t in ipairs(order) do
  local settings = settings_of(q, t)
  local finishes = {}
  for at in ipairs(names) do finishes[at] = lanes[t][2][at] or '-1' end
  reply[#reply + 1] = {
    t, settings and settings.weight or of_queue and of_queue.weight or 1,
    math.min(lanes[t][1], most), finishes,
  }
end
return reply
