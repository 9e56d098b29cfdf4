-- One live job. ?1 job. Returns what a transition looks at.
SELECT l.job, l.queue, l.lane, l.sublane, l.state, l.run_at, l.attempt, l.max_attempts, l.keyed,
  l.fence, l.nonce, l.outcome, l.cancel, l.lease_until, l.started_at, l.worker
FROM jobs_live l WHERE l.job = ?1
