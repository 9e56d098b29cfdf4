-- Changes a queue's settings, which cover lanes that come later. Binds as in set_lane.sql but for
-- the tenant: ?2 weight, ?3 is the pause changed, ?4 paused until, ?5 verb, ?6 by, ?7 now.
UPDATE jobs_queue SET weight = coalesce(?2, weight),
  paused_until = CASE WHEN ?3 THEN ?4 ELSE paused_until END,
  changed = ?5, changed_by = ?6, changed_at = ?7
WHERE name = ?1
