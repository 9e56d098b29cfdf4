-- Sublanes of known names in which a job came due, longest due first. ?1 queue, ?2 names, a JSON
-- array, ?3 now, ?4 most of one name.
-- Rejected: due jobs of the whole queue by time, where one tenant's 100,000 hide another's one.
SELECT s.sublane FROM json_each(?2) n
CROSS JOIN jobs_sublane s ON s.sublane IN (
  SELECT w.sublane FROM jobs_sublane w
  WHERE w.queue = ?1 AND w.name = n.value AND w.due IS NOT NULL AND w.due <= ?3
  ORDER BY w.due LIMIT ?4)
