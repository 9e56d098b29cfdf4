-- Jobs that came due and nobody promoted yet. ?1 now, ?2 most looked at, ?3 queue's name or null.
-- Returns lane, how many, earliest due.
SELECT x.lane, count(*), min(x.run_at) FROM (
  SELECT l.lane, l.run_at FROM jobs_queue q
  CROSS JOIN jobs_live l ON l.queue = q.queue AND l.state = 0 AND l.run_at <= ?1
  WHERE ?3 IS NULL OR q.name = ?3 LIMIT ?2) x
GROUP BY x.lane
