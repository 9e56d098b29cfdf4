-- One job in scope. ?1 tenant, ?2 id, ?3 the only tenant in scope, or null for all.
-- Returns the view as list_fetch.sql does, then job, fence, worker, start, renewal, lease's end,
-- snoozes, releases, verb, by, at; of a done job its last attempt's worker and start.
SELECT b.tenant, b.id, q.name, s.name, b.action, b.authorized_by, b.payload, b.priority,
  b.max_attempts, b.timeout, b.key, b.key_scope, b.metadata, b.pushed_at,
  coalesce(l.state, d.state, CASE WHEN EXISTS (SELECT 1 FROM jobs_ready r
    WHERE r.sublane = b.sublane AND r.rank = -b.priority AND r.run_at = b.due AND r.id = b.id
    AND r.job = b.job) THEN 1 END), coalesce(l.run_at, d.run_at, b.due),
  coalesce(l.attempt, d.attempt, 0),
  d.ended_at, coalesce(l.cancel, 0),
  (SELECT a.cause FROM jobs_attempt a WHERE a.job = b.job AND a.cause IS NOT NULL
    ORDER BY a.fence DESC LIMIT 1),
  b.job, coalesce(l.fence, d.fence, 0), l.worker, l.started_at, l.renewed_at, l.lease_until,
  coalesce(l.snoozes, d.snoozes, 0), coalesce(l.releases, d.releases, 0),
  coalesce(l.verb, d.verb), coalesce(l.verb_by, d.verb_by), coalesce(l.verb_at, d.verb_at),
  d.worker, d.started_at, d.outcome
FROM jobs_body b
LEFT JOIN jobs_queue q ON q.queue = b.queue_number
LEFT JOIN jobs_sublane s ON s.sublane = b.sublane
LEFT JOIN jobs_live l ON l.job = b.job
LEFT JOIN jobs_done d ON d.job = b.job
WHERE b.tenant = ?1 AND b.id = ?2 AND (?3 IS NULL OR b.tenant = ?3) AND d.stub IS NOT 1
