-- The lanes of all tenants that have live jobs or settings, those where a job waits first. They are
-- sought from the jobs, one step a lane or sublane that has some: idle ones cost nothing.
-- ?1 queue's name or null, ?2 now, ?3 most lanes, ?4 most steps of each kind.
-- Returns lane, queue, tenant, weight, paused until, and who changed it when:
-- the lane's verb, by, at, and the queue's.
-- Rejected: all lanes with a look at the jobs of each, where idle ones hide waiting ones.
WITH RECURSIVE
ready (sublane) AS (
  SELECT (SELECT min(x.sublane) FROM jobs_ready x)
  UNION ALL
  SELECT (SELECT min(x.sublane) FROM jobs_ready x WHERE x.sublane > r.sublane)
  FROM ready r WHERE r.sublane IS NOT NULL LIMIT ?4),
parked (lane) AS (
  SELECT (SELECT min(x.lane) FROM jobs_live x WHERE x.state = 3)
  UNION ALL
  SELECT (SELECT min(x.lane) FROM jobs_live x WHERE x.state = 3 AND x.lane > p.lane)
  FROM parked p WHERE p.lane IS NOT NULL LIMIT ?4),
scheduled (lane) AS (
  SELECT (SELECT min(x.lane) FROM jobs_live x WHERE x.state = 0)
  UNION ALL
  SELECT (SELECT min(x.lane) FROM jobs_live x WHERE x.state = 0 AND x.lane > p.lane)
  FROM scheduled p WHERE p.lane IS NOT NULL LIMIT ?4),
counted (lane, idle) AS (
  SELECT s.lane, 0 FROM ready r CROSS JOIN jobs_sublane s ON s.sublane = r.sublane
  UNION ALL
  SELECT p.lane, NOT EXISTS (SELECT 1 FROM (SELECT x.run_at FROM jobs_live x
    WHERE x.lane = p.lane AND x.state = 0 LIMIT 100) w WHERE w.run_at <= ?2)
  FROM scheduled p WHERE p.lane IS NOT NULL
  UNION ALL
  SELECT p.lane, 1 FROM parked p WHERE p.lane IS NOT NULL
  UNION ALL
  SELECT x.lane, coalesce(x.lease_until > ?2, 0) FROM jobs_live x WHERE x.state = 2
  UNION ALL
  SELECT l.lane, 1 FROM jobs_lane l WHERE l.changed_at IS NOT NULL)
SELECT l.lane, q.name, l.tenant, coalesce(l.weight, q.weight, 1),
  max(coalesce(l.paused_until, 0), coalesce(q.paused_until, 0)),
  l.changed, l.changed_by, l.changed_at, q.changed, q.changed_by, q.changed_at
FROM (SELECT lane, min(idle) AS idle FROM counted GROUP BY lane) c
CROSS JOIN jobs_lane l ON l.lane = c.lane
CROSS JOIN jobs_queue q ON q.queue = l.queue
WHERE ?1 IS NULL OR q.name = ?1
ORDER BY c.idle, q.name, l.tenant LIMIT ?3
