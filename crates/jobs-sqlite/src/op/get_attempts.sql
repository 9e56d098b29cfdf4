-- The attempts of a job, oldest first. ?1 job. Returns number, fence, worker, start, end, outcome,
-- cause.
SELECT number, fence, worker, started_at, ended_at, outcome, cause
FROM jobs_attempt WHERE job = ?1 ORDER BY fence
