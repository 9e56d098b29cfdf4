-- Jobs held under a nonce, in the order asked. ?1 jobs, a JSON array, ?2 nonce.
-- Returns job, fence, attempt, due, suspect, then the body.
SELECT l.job, l.fence, l.attempt, l.run_at, l.sublane & 1,
  b.tenant, b.id, q.name, s.name, b.action, b.authorized_by, b.payload, b.priority,
  b.max_attempts, b.timeout, b.key, b.key_scope, b.metadata
FROM json_each(?1) n
CROSS JOIN jobs_live l ON l.job = n.value AND l.state = 2 AND l.nonce = ?2
LEFT JOIN jobs_body b ON b.job = l.job
LEFT JOIN jobs_queue q ON q.queue = b.queue_number
LEFT JOIN jobs_sublane s ON s.sublane = b.sublane
ORDER BY n.key
