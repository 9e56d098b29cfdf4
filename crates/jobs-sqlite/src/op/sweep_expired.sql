-- Running jobs that were silent past their lease, the longest-silent first, and before
-- them those without one or with one that ends in more than two hours, which are damaged: no lease
-- is longer than an hour. ?1 now, ?2 most.
-- Returns the live row as moves_run.sql does, then tenant, id, queue, name.
SELECT l.job, l.queue, l.lane, l.sublane, l.state, l.run_at, l.attempt, l.max_attempts, l.keyed,
  l.fence, l.nonce, l.outcome, l.cancel, l.lease_until, l.started_at, l.worker,
  b.tenant, b.id, q.name, s.name
FROM (
  SELECT * FROM (SELECT job FROM jobs_live WHERE state = 2 AND lease_until IS NULL LIMIT ?2)
  UNION ALL
  SELECT * FROM (SELECT job FROM jobs_live WHERE state = 2 AND lease_until > ?1 + 7200000
    LIMIT ?2)
  UNION ALL
  SELECT * FROM (SELECT job FROM jobs_live WHERE state = 2 AND lease_until <= ?1
    ORDER BY lease_until LIMIT ?2)) x
CROSS JOIN jobs_live l ON l.job = x.job
LEFT JOIN jobs_body b ON b.job = l.job
LEFT JOIN jobs_queue q ON q.queue = b.queue_number
LEFT JOIN jobs_sublane s ON s.sublane = b.sublane
