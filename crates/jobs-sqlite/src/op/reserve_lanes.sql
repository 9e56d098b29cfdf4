-- The lanes with work of these names, at each name the earliest virtual time first: from the ring's
-- index, one seek for each name, so that neither unknown names nor drained or paused lanes are
-- looked at. ?1 queue, ?2 names, a JSON array, ?3 most suspect (1 takes suspects, 0 not), ?4 most
-- lanes of a name. Returns name's index, lane, virtual time, last visit, the name's virtual now or
-- null, weight.
-- Rejected: an index by lane alone, where 100,000 jobs of unknown names keep lanes in the way.
SELECT n.key, s.lane, s.vt, s.visited, c.vt, coalesce(l.weight, q.weight, 1)
FROM json_each(?2) n
CROSS JOIN jobs_sublane s ON s.sublane IN (
  SELECT r.sublane FROM jobs_sublane r
  WHERE r.queue = ?1 AND r.name = n.value AND r.ring = 1 AND r.suspect <= ?3
  ORDER BY r.vt, r.lane LIMIT 2 * ?4)
CROSS JOIN jobs_lane l ON l.lane = s.lane
CROSS JOIN jobs_queue q ON q.queue = ?1
LEFT JOIN jobs_sublane c ON c.lane = -?1 AND c.name = n.value AND c.suspect = 0
