-- What a reserve wishes for: a queue, and names that are known, each with whether it is quick.

local function names_from(at, count)
  local names = {}
  for place = at, at + 2 * count - 2, 2 do
    names[#names + 1] = { ARGV[place], ARGV[place + 1] == '1' }
  end
  return names
end

-- The classes that a wish takes: of quick names all but suspects, of others only into a free slot.
local function classes_for(name, anything)
  if anything > 0 then return { name[1], name[1] .. '!' } end
  return name[2] and { name[1] } or {}
end

-- Puts in line what came due of these names: a bounded number in all, of each name with some an equal
-- part, so that none waits behind another's crowd.
local function promote_all(q, names, most)
  local due = {}
  for _, name in ipairs(names) do
    local lanes = later_lanes_key(q, name[1])
    if call('ZRANGE', lanes, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 1)[1] then due[#due + 1] = name[1] end
  end
  local part = math.ceil((most + 500) / math.max(1, #due))
  for _, n in ipairs(due) do promote(q, n, math.min(most + 200, part), part, true) end
end

-- When the next job of these names is due. The bounds are mended on the way.
local function next_due(q, names)
  local soonest
  for _, name in ipairs(names) do
    local lanes = later_lanes_key(q, name[1])
    for _ = 1, 8 do
      local head = call('ZRANGE', lanes, 0, 0, 'WITHSCORES')
      if not head[1] then break end
      local bound = math.max(tonumber(head[2]), NOW)
      local first = call('ZRANGE', later_key(q, head[1], name[1]), 0, 0, 'WITHSCORES')
      if first[2] and tonumber(first[2]) <= bound then
        soonest = math.min(soonest or bound, bound)
        break
      elseif first[2] then
        call('ZADD', lanes, first[2], head[1])
      else
        forget_later(q, head[1], name[1])
      end
    end
  end
  return soonest and math.min(soonest - NOW, 3600000) or -1
end
