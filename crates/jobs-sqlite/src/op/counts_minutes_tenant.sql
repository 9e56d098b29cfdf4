-- What ended, minute by minute, of one tenant: one seek for each of its lanes and minutes.
-- ?1 the oldest minute, ?2 queue's name or null, ?3 most rows, ?4 tenant, ?5 now.
-- Returns queue, tenant, minute, finished, failed.
WITH RECURSIVE minutes (at) AS (
  SELECT ?1 - ?1 % 60000 UNION ALL SELECT at + 60000 FROM minutes WHERE at + 60000 <= ?5)
SELECT q.name, l.tenant, m.at, m.finished, m.failed
FROM jobs_lane l CROSS JOIN jobs_queue q ON q.queue = l.queue
CROSS JOIN minutes t
CROSS JOIN jobs_minute m ON m.at = t.at AND m.lane = l.lane
WHERE l.tenant = ?4 AND m.at >= ?1 AND (?2 IS NULL OR q.name = ?2)
ORDER BY m.at, q.name LIMIT ?3
