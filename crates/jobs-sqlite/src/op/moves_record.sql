-- Puts ended attempts on record. ?1 [[job, fence, number, worker, start, end, outcome, cause], …].
INSERT OR IGNORE INTO jobs_attempt
  (job, fence, number, worker, started_at, ended_at, outcome, cause)
SELECT n.value ->> 0, n.value ->> 1, n.value ->> 2, n.value ->> 3, n.value ->> 4, n.value ->> 5,
  n.value ->> 6, n.value ->> 7
FROM json_each(?1) n
