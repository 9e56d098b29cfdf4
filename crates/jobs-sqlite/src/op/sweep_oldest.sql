-- The oldest done jobs of a queue. ?1 queue, ?2 most. Returns job.
SELECT d.job FROM jobs_done d WHERE d.queue = ?1 AND d.state = 4 AND d.stub = 0
ORDER BY d.ended_at LIMIT ?2
