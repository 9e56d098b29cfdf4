-- Jobs in scope, by one statement for known, unknown and foreign ids.
-- ?1 [[tenant, id in hex], …], ?2 the only tenant in scope, or null for all.
-- Returns index, job, the live row as moves_run.sql does, a finished one's state and queue.
SELECT n.key, b.job, l.job, l.queue, l.lane, l.sublane, l.state, l.run_at, l.attempt,
  l.max_attempts, l.keyed, l.fence, l.nonce, l.outcome, l.cancel, l.lease_until, l.started_at,
  l.worker, d.state, d.queue
FROM json_each(?1) n
CROSS JOIN jobs_body b ON b.tenant = n.value ->> 0 AND b.id = unhex(n.value ->> 1)
  AND (?2 IS NULL OR b.tenant = ?2)
LEFT JOIN jobs_live l ON l.job = b.job
LEFT JOIN jobs_done d ON d.job = b.job
WHERE d.stub IS NOT 1
