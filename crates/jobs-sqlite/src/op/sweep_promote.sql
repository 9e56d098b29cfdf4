-- Puts what came due in line, queue by queue. ?1 now, ?2 most. Returns queue, sublane.
UPDATE jobs_live SET state = 1 WHERE job IN (
  SELECT l.job FROM jobs_queue q
  CROSS JOIN jobs_live l ON l.queue = q.queue AND l.state = 0 AND l.run_at <= ?1
  LIMIT ?2)
RETURNING queue, sublane
