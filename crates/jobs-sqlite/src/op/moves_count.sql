-- Counts done jobs that retention looks at. ?1 [[queue, more], …].
UPDATE jobs_queue SET done = max(0, done + v.more)
FROM (SELECT n.value ->> 0 AS queue, n.value ->> 1 AS more FROM json_each(?1) n) v
WHERE jobs_queue.queue = v.queue
