-- Brings a cancelled job back among the live ones, as it was when it ended. ?1 job.
INSERT INTO jobs_live (job, queue, lane, sublane, state, rank, run_at, id, attempt, max_attempts,
  keyed, fence, nonce, outcome, snoozes, releases, verb, verb_by, verb_at)
SELECT d.job, d.queue, d.lane, d.sublane, 3, -b.priority, d.run_at, d.id, d.attempt,
  d.max_attempts, CASE b.key_scope WHEN 1 THEN 1 ELSE 0 END, d.fence, d.nonce, d.outcome,
  d.snoozes, d.releases, d.verb, d.verb_by, d.verb_at
FROM jobs_done d CROSS JOIN jobs_body b ON b.job = d.job WHERE d.job = ?1
