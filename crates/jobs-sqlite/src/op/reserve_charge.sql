-- Charges lanes their visits, moves the clocks of names, and takes drained sublanes out of the ring,
-- by the unique index: only lanes looked at and names known, however many there are.
-- ?1 [[lane, name, virtual time, last visit], …], ?2 drained sublanes.
UPDATE jobs_sublane SET vt = v.vt, visited = v.visited,
  ring = CASE WHEN sublane IN (SELECT value FROM json_each(?2)) THEN 0 ELSE ring END
FROM (SELECT n.value ->> 0 AS lane, n.value ->> 1 AS name, n.value ->> 2 AS vt,
    n.value ->> 3 AS visited FROM json_each(?1) n) v
WHERE jobs_sublane.lane = v.lane AND jobs_sublane.name = v.name
