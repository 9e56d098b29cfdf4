-- Makes the live row of a job in line that has none yet, so that a verb finds what it changes.
-- ?1 job.
INSERT INTO jobs_live (job, queue, lane, sublane, state, rank, run_at, id, max_attempts, keyed)
SELECT b.job, b.queue_number, b.lane, b.sublane, 1, -b.priority, b.due, b.id, b.max_attempts,
  b.key_scope
FROM jobs_body b
CROSS JOIN jobs_ready r ON r.sublane = b.sublane AND r.rank = -b.priority AND r.run_at = b.due
  AND r.id = b.id AND r.job = b.job
WHERE b.job = ?1
