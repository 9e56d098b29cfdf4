-- What claims are worth. ?1 [[tenant, id in hex], …], sorted or not.
-- Returns index, the live row as moves_run.sql does, then fence, nonce, outcome, end of a finished
-- one. The claim is compared by the caller, which holds the write lock.
-- Rejected: an UPDATE guarded by the claim for each settlement, 100 statements for 100 jobs.
SELECT n.key, l.job, l.queue, l.lane, l.sublane, l.state, l.run_at, l.attempt, l.max_attempts,
  l.keyed, l.fence, l.nonce, l.outcome, l.cancel, l.lease_until, l.started_at, l.worker,
  d.fence, d.nonce, d.outcome, d.ended_at
FROM json_each(?1) n
CROSS JOIN jobs_body b ON b.tenant = n.value ->> 0 AND b.id = unhex(n.value ->> 1)
LEFT JOIN jobs_live l ON l.job = b.job
LEFT JOIN jobs_done d ON d.job = b.job AND l.job IS NULL
