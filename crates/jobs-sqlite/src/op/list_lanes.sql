-- The lanes of a tenant. ?1 queue's name or null for all, ?2 tenant, ?3 most. Returns lane.
SELECT l.lane FROM jobs_lane l
WHERE l.tenant = ?2 AND (?1 IS NULL OR l.queue = (SELECT queue FROM jobs_queue WHERE name = ?1))
LIMIT ?3
