-- Takes jobs that just left their line. One that is held, parked or ended all the same is damage,
-- and stays what it is. Damaged counts stop short of an overflow, which would fail every reserve.
-- ?1 jobs, a JSON array, ?2 nonce, ?3 now, ?4 lease's end, ?5 worker.
INSERT INTO jobs_live (job, queue, lane, sublane, state, rank, run_at, id, attempt, max_attempts,
  keyed, fence, nonce, lease_until, started_at, renewed_at, worker)
SELECT b.job, b.queue_number, b.lane, b.sublane, 2, -b.priority, b.due, b.id, 1, b.max_attempts,
  CASE b.key_scope WHEN 2 THEN 0 ELSE b.key_scope END, 1, ?2, ?4, ?3, ?3, ?5
FROM json_each(?1) n CROSS JOIN jobs_body b ON b.job = n.value
WHERE NOT EXISTS (SELECT 1 FROM jobs_done d WHERE d.job = b.job)
ON CONFLICT (job) DO UPDATE SET state = 2, attempt = min(attempt, 9223372036854775806) + 1,
  fence = min(fence, 9223372036854775806) + 1, nonce = excluded.nonce,
  outcome = NULL, lease_until = excluded.lease_until, started_at = excluded.started_at,
  renewed_at = excluded.renewed_at, worker = excluded.worker,
  keyed = CASE keyed WHEN 2 THEN 0 ELSE keyed END
WHERE state = 1
