-- The lanes of one tenant that have live jobs or settings. ?1 queue's name or null, ?2 tenant,
-- ?3 most lanes. Returns as counts_lanes.sql does.
SELECT l.lane, q.name, l.tenant, coalesce(l.weight, q.weight, 1),
  max(coalesce(l.paused_until, 0), coalesce(q.paused_until, 0)),
  l.changed, l.changed_by, l.changed_at, q.changed, q.changed_by, q.changed_at
FROM jobs_lane l CROSS JOIN jobs_queue q ON q.queue = l.queue
WHERE l.tenant = ?2 AND (?1 IS NULL OR q.name = ?1) AND (l.changed_at IS NOT NULL
  OR EXISTS (SELECT 1 FROM jobs_live x WHERE x.lane = l.lane AND x.state = 0)
  OR EXISTS (SELECT 1 FROM jobs_live x WHERE x.lane = l.lane AND x.state = 3)
  OR EXISTS (SELECT 1 FROM jobs_sublane s CROSS JOIN jobs_ready x ON x.sublane = s.sublane
    WHERE s.lane = l.lane)
  OR l.lane IN (SELECT r.lane FROM jobs_live r WHERE r.state = 2))
ORDER BY q.name LIMIT ?3
