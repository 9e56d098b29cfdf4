-- What ended, minute by minute. ?1 the oldest minute, ?2 queue or null, ?3 tenant or null.
-- Returns queue, tenant, minute, finished, failed.
SELECT q.name, l.tenant, m.at, m.finished, m.failed
FROM jobs_minute m
CROSS JOIN jobs_lane l ON l.lane = m.lane
CROSS JOIN jobs_queue q ON q.queue = l.queue
WHERE m.at >= ?1 AND (?2 IS NULL OR q.name = ?2) AND (?3 IS NULL OR l.tenant = ?3)
ORDER BY m.at, q.name, l.tenant
