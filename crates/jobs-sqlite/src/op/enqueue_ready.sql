-- Puts new jobs in line. ?1 the first's number, ?2 the last's.
-- Rejected: a trigger, which runs a program a row: two thirds of the rate.
INSERT INTO jobs_ready (sublane, rank, run_at, id, job, keyed)
SELECT b.sublane, -b.priority, b.due, b.id, b.job, b.key_scope
FROM jobs_body b WHERE b.job BETWEEN ?1 AND ?2 AND b.due <= b.pushed_at
