-- Copies ended jobs to history. A done row carries its last attempt. ?1 [[job, state, outcome or
-- null for the row's own], …], ?2 now.
INSERT OR REPLACE INTO jobs_done (job, queue, lane, sublane, id, state, run_at, ended_at, attempt,
  max_attempts, fence, nonce, outcome, started_at, worker, snoozes, releases, verb, verb_by, verb_at)
SELECT l.job, l.queue, l.lane, l.sublane, l.id, n.value ->> 1, l.run_at, ?2, l.attempt,
  l.max_attempts, l.fence, l.nonce, coalesce(n.value ->> 2, l.outcome), l.started_at, l.worker,
  l.snoozes, l.releases, l.verb, l.verb_by, l.verb_at
FROM json_each(?1) n CROSS JOIN jobs_live l ON l.job = n.value ->> 0
