-- The newest jobs of one state, from that state's index, lane by lane. STATE and TABLE are
-- replaced. Binds as in list_tenant.sql, ?4 tenant or null, ?5 queue or null.
-- Returns job, id, tenant.
SELECT x.job, x.id, l.tenant
FROM jobs_lane l CROSS JOIN jobs_queue q ON q.queue = l.queue
CROSS JOIN TABLE x ON x.job IN (
  SELECT s.job FROM TABLE s WHERE s.lane = l.lane AND STATE AND s.id <= ?1
  ORDER BY s.id DESC LIMIT ?3)
WHERE (?4 IS NULL OR l.tenant = ?4) AND (?5 IS NULL OR q.name = ?5)
  AND (x.id, l.tenant) < (?1, ?2)
ORDER BY x.id DESC, l.tenant DESC LIMIT ?3
