-- What a reserve has to know before it picks. ?1 queue's name, ?2 nonce, ?3 now, ?4 known names, a
-- JSON array. Returns queue, paused until, when the next scheduled job of a known name is due, is a
-- lane's pause over, and the jobs that this nonce took before.
SELECT q.queue, coalesce(q.paused_until, 0),
  (SELECT min((SELECT min(w.due) FROM jobs_sublane w
      WHERE w.queue = q.queue AND w.name = n.value AND w.due IS NOT NULL))
    FROM json_each(?4) n),
  EXISTS (SELECT 1 FROM jobs_lane l
    WHERE l.queue = q.queue AND l.paused_until IS NOT NULL AND l.paused_until <= ?3),
  (SELECT r.jobs FROM jobs_reserve r WHERE r.nonce = ?2)
FROM jobs_queue q WHERE q.name = ?1
