-- What a reserve has to know before it picks. ?1 queue's name, ?2 nonce, ?3 now.
-- Returns queue, virtual now, paused until, is something due but not promoted, is a lane's pause
-- over, and the jobs that this nonce took before.
SELECT q.queue, q.vt, coalesce(q.paused_until, 0),
  EXISTS (SELECT 1 FROM jobs_live l WHERE l.queue = q.queue AND l.state = 0 AND l.run_at <= ?3),
  EXISTS (SELECT 1 FROM jobs_lane l
    WHERE l.queue = q.queue AND l.paused_until IS NOT NULL AND l.paused_until <= ?3),
  (SELECT r.jobs FROM jobs_reserve r WHERE r.nonce = ?2)
FROM jobs_queue q WHERE q.name = ?1
