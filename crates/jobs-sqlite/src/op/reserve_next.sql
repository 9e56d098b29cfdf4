-- When the next scheduled job of known names is due, among the next 200 of the queue: a hint.
-- ?1 queue, ?2 names, a JSON array.
SELECT min(h.run_at) FROM (
  SELECT l.run_at, l.sublane FROM jobs_live l WHERE l.queue = ?1 AND l.state = 0
  ORDER BY l.run_at LIMIT 200) h
CROSS JOIN jobs_sublane s ON s.sublane = h.sublane
WHERE s.name IN (SELECT value FROM json_each(?2))
