-- Makes new jobs wait until they are due. ?1 the first's number, ?2 the last's.
INSERT INTO jobs_live (job, queue, lane, sublane, state, rank, run_at, id, max_attempts, keyed)
SELECT b.job, b.queue_number, b.lane, b.sublane, 0, -b.priority, b.due, b.id, b.max_attempts,
  b.key_scope
FROM jobs_body b WHERE b.job BETWEEN ?1 AND ?2 AND b.due > b.pushed_at
