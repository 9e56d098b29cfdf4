-- The lines of some lanes, and what each lane is charged at each name. A line out of the ring is
-- charged too. ?1 lanes, ?2 names, ?3 most suspect, ?4 quick names; JSON arrays.
-- Returns lane, sublane, may be held ahead, name's index, virtual time, last visit, may be taken.
SELECT s.lane, s.sublane,
  s.suspect = 0 AND s.name IN (SELECT q.value FROM json_each(?4) q),
  k.key, s.vt, s.visited, s.ring = 1 AND s.suspect <= ?3
FROM json_each(?1) n
CROSS JOIN json_each(?2) k
CROSS JOIN jobs_sublane s ON s.lane = n.value AND s.name = k.value
  AND (s.suspect = 0 OR (s.ring = 1 AND s.suspect <= ?3))
