-- Ready jobs of lanes, each sublane counted to 10,001, and the earliest due: a line begins
-- with the rank, so the earliest of each rank is sought, one step a rank.
-- ?1 lanes, a JSON array. Returns lane, ready, earliest due.
SELECT s.lane,
  (SELECT count(*) FROM (SELECT 1 FROM jobs_ready x WHERE x.sublane = s.sublane LIMIT 10001)),
  (WITH RECURSIVE ranks (rank) AS (
    SELECT (SELECT min(x.rank) FROM jobs_ready x WHERE x.sublane = s.sublane)
    UNION ALL
    SELECT (SELECT min(x.rank) FROM jobs_ready x
      WHERE x.sublane = s.sublane AND x.rank > r.rank)
    FROM ranks r WHERE r.rank IS NOT NULL)
  SELECT min((SELECT min(x.run_at) FROM jobs_ready x
    WHERE x.sublane = s.sublane AND x.rank = r.rank)) FROM ranks r)
FROM json_each(?1) n CROSS JOIN jobs_sublane s ON s.lane = n.value AND s.ring <> 0
