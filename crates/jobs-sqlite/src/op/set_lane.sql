-- Changes a lane's settings. ?1 queue's name, ?2 tenant, ?3 weight or null to leave it, ?4 is the
-- pause changed, ?5 paused until or null, ?6 verb, ?7 by, ?8 now. Returns lane, paused until.
UPDATE jobs_lane SET weight = coalesce(?3, weight),
  paused_until = CASE WHEN ?4 THEN ?5 ELSE paused_until END,
  changed = ?6, changed_by = ?7, changed_at = ?8
WHERE queue = (SELECT queue FROM jobs_queue WHERE name = ?1) AND tenant = ?2
RETURNING lane, paused_until
