-- Puts the first due jobs of some sublanes in line. ?1 sublanes, a JSON array, ?2 now, ?3 most of
-- each.
UPDATE jobs_live SET state = 1 WHERE job IN (
  SELECT x.job FROM json_each(?1) n
  CROSS JOIN jobs_live x ON x.job IN (
    SELECT l.job FROM jobs_live l WHERE l.sublane = n.value AND l.state = 0 AND l.run_at <= ?2
    ORDER BY l.run_at LIMIT ?3))
