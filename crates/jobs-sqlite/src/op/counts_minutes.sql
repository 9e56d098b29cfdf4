-- What ended, minute by minute, of all tenants. ?1 the oldest minute, ?2 queue's name or null,
-- ?3 most rows looked at, the newest. Returns queue, tenant, minute, finished, failed.
SELECT q.name, l.tenant, m.at, m.finished, m.failed
FROM (SELECT at, lane, finished, failed FROM jobs_minute
  WHERE at >= ?1 ORDER BY at DESC, lane DESC LIMIT ?3) m
CROSS JOIN jobs_lane l ON l.lane = m.lane
CROSS JOIN jobs_queue q ON q.queue = l.queue
WHERE ?2 IS NULL OR q.name = ?2
ORDER BY m.at, q.name, l.tenant
