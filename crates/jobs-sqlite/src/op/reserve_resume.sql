-- Ends the pauses of a queue's lanes that are over. ?1 queue, ?2 now. Returns the lanes.
UPDATE jobs_lane SET paused_until = NULL
WHERE queue = ?1 AND paused_until IS NOT NULL AND paused_until <= ?2
RETURNING lane
