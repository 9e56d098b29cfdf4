-- The heads of the sublanes of some lanes, in (priority, due, id) order of each sublane; a sublane
-- in the ring without ready jobs answers one row of nulls, so that it leaves the ring, and so does
-- one out of the ring, which is charged too.
-- ?1 lanes, ?2 names, ?3 most suspect, ?4 most of one sublane, ?5 quick names; JSON arrays.
-- Returns lane, sublane, may be held ahead, job, rank, due, id, keyed, name's index, virtual time,
-- last visit, may be taken.
-- Rejected: a window function over the ready jobs, whose cost grows with the backlog (Hatchet's
-- first queue broke at 25,000 to 40,000 rows that way).
SELECT s.lane, s.sublane,
  s.suspect = 0 AND s.name IN (SELECT q.value FROM json_each(?5) q),
  x.job, x.rank, x.run_at, x.id, x.keyed, k.key, s.vt, s.visited, s.ring = 1 AND s.suspect <= ?3
FROM json_each(?1) n
CROSS JOIN json_each(?2) k
CROSS JOIN jobs_sublane s ON s.lane = n.value AND s.name = k.value
  AND (s.suspect = 0 OR (s.ring = 1 AND s.suspect <= ?3))
LEFT JOIN jobs_live x ON s.ring = 1 AND x.job IN (
  SELECT h.job FROM jobs_live h WHERE h.sublane = s.sublane AND h.state = 1
  ORDER BY h.rank, h.run_at, h.id LIMIT ?4)
