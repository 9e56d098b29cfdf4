-- Scheduled and parked jobs of lanes, parked ones counted to 10,001; those due but not promoted are
-- among the scheduled. ?1 lanes, a JSON array, ?2 most scheduled. Returns lane, scheduled, parked.
SELECT n.value,
  (SELECT count(*) FROM (SELECT 1 FROM jobs_live x
    WHERE x.lane = n.value AND x.state = 0 LIMIT ?2)),
  (SELECT count(*) FROM (SELECT 1 FROM jobs_live x
    WHERE x.lane = n.value AND x.state = 3 LIMIT 10001))
FROM json_each(?1) n
