-- Makes the rows of names at which a lane is charged though it never had a job of them, and the
-- clocks of names: once for each. ?1 queue, ?2 [[lane, name], …].
INSERT INTO jobs_sublane (sublane, queue, lane, name, suspect)
SELECT 2 * ((SELECT coalesce(max(sublane), 0) / 2 FROM jobs_sublane) + n.key + 1) + twin.value,
  ?1, n.value ->> 0, n.value ->> 1, twin.value
FROM json_each(?2) n CROSS JOIN json_each('[0,1]') twin
