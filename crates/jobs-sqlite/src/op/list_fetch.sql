-- Views of jobs. ?1 jobs, a JSON array. Returns the body, pushed, state, due, attempt, end, cancel
-- requested, newest cause.
SELECT b.tenant, b.id, q.name, s.name, b.action, b.authorized_by, b.payload, b.priority,
  b.max_attempts, b.timeout, b.key, b.key_scope, b.metadata, b.pushed_at,
  coalesce(l.state, d.state, CASE WHEN EXISTS (SELECT 1 FROM jobs_ready r
    WHERE r.sublane = b.sublane AND r.rank = -b.priority AND r.run_at = b.due AND r.id = b.id
    AND r.job = b.job) THEN 1 END), coalesce(l.run_at, d.run_at, b.due),
  coalesce(l.attempt, d.attempt, 0),
  d.ended_at, coalesce(l.cancel, 0),
  (SELECT a.cause FROM jobs_attempt a WHERE a.job = b.job AND a.cause IS NOT NULL
    ORDER BY a.fence DESC LIMIT 1)
FROM json_each(?1) n
CROSS JOIN jobs_body b ON b.job = n.value
LEFT JOIN jobs_queue q ON q.queue = b.queue_number
LEFT JOIN jobs_sublane s ON s.sublane = b.sublane
LEFT JOIN jobs_live l ON l.job = b.job
LEFT JOIN jobs_done d ON d.job = b.job
ORDER BY n.key
