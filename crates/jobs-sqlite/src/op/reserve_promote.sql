-- Puts what came due in one queue in line, bounded. ?1 queue, ?2 now, ?3 most. Returns sublanes.
UPDATE jobs_live SET state = 1 WHERE job IN (
  SELECT l.job FROM jobs_live l WHERE l.queue = ?1 AND l.state = 0 AND l.run_at <= ?2
  ORDER BY l.run_at LIMIT ?3)
RETURNING sublane
