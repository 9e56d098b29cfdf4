-- Finished jobs past their age. ?1 done before, ?2 cancelled before, ?3 most. Returns job, queue,
-- is it done.
SELECT * FROM (SELECT d.job, d.queue, 1 FROM jobs_queue q
  CROSS JOIN jobs_done d ON d.queue = q.queue AND d.state = 4 AND d.stub = 0 AND d.ended_at <= ?1
  LIMIT ?3)
UNION ALL
SELECT * FROM (SELECT d.job, d.queue, 0 FROM jobs_done d
  WHERE d.state = 5 AND d.stub = 0 AND d.ended_at <= ?2 LIMIT ?3)
