-- Stubs that have answered long enough. ?1 ended before, ?2 most. Returns job.
SELECT job FROM jobs_done WHERE stub = 1 AND ended_at <= ?1 LIMIT ?2
