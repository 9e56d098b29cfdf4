-- The newest running jobs: all are looked at, because they are as few as workers have slots.
-- Binds as in list_shelf.sql. Returns job, id, tenant.
SELECT x.job, x.id, l.tenant
FROM jobs_live x CROSS JOIN jobs_lane l ON l.lane = x.lane CROSS JOIN jobs_queue q ON q.queue = x.queue
WHERE x.state = 2 AND (?4 IS NULL OR l.tenant = ?4) AND (?5 IS NULL OR q.name = ?5)
  AND (x.id, l.tenant) < (?1, ?2)
ORDER BY x.id DESC, l.tenant DESC LIMIT ?3
