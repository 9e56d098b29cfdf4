-- Changes a queue's settings, which cover lanes that come later. Binds as in set_lane.sql but for
-- the tenant: ?2 weight, ?3 is the pause changed, ?4 paused until.
UPDATE jobs_queue SET weight = coalesce(?2, weight),
  paused_until = CASE WHEN ?3 THEN ?4 ELSE paused_until END
WHERE name = ?1
