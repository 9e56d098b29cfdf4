-- The lanes in scope. ?1 queue or null, ?2 tenant or null, ?3 most.
-- Returns lane, queue, tenant, weight, paused until.
SELECT l.lane, q.name, l.tenant, coalesce(l.weight, q.weight, 1),
  max(coalesce(l.paused_until, 0), coalesce(q.paused_until, 0))
FROM jobs_queue q CROSS JOIN jobs_lane l ON l.queue = q.queue
WHERE (?1 IS NULL OR q.name = ?1) AND (?2 IS NULL OR l.tenant = ?2)
ORDER BY q.name, l.tenant LIMIT ?3
