-- Charges lanes their visits and takes drained sublanes out of the ring, by primary key and the
-- unique index. ?1 [[lane, virtual time], …], ?2 drained sublanes.
UPDATE jobs_sublane SET vt = v.vt,
  ring = CASE WHEN sublane IN (SELECT value FROM json_each(?2)) THEN 0 ELSE ring END
FROM (SELECT n.value ->> 0 AS lane, n.value ->> 1 AS vt FROM json_each(?1) n) v
WHERE jobs_sublane.lane = v.lane
