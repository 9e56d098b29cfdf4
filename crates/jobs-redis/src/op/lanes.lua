-- Some of the lanes asked for, in order, after `from`: a queue's, a tenant's, one or all. Answers them
-- as queue/tenant, and where to go on.
local function lanes_after(queue, tenant, from, most)
  local found, registry, prefix = {}, P .. 'lanes', queue ~= '' and queue .. '/' or ''
  if queue ~= '' and tenant ~= '' then
    return { queue .. '/' .. tenant }, ''
  end
  if tenant ~= '' then registry, prefix = P .. 'tenants', tenant .. '/' end
  local low = '[' .. prefix
  if from ~= '' then low = '(' .. from end
  local high = prefix == '' and '+' or '(' .. string.sub(prefix, 1, -2) .. '0'
  local members = call('ZRANGE', registry, low, high, 'BYLEX', 'LIMIT', 0, most)
  for _, member in ipairs(members) do
    local one, other = string.match(member, '^([^/]*)/([^/]*)$')
    found[#found + 1] = tenant ~= '' and other .. '/' .. one or member
  end
  return found, members[most] or ''
end
