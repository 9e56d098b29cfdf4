-- Puts new jobs in line. The row is repeated for each job.
INSERT INTO jobs_live (job, queue, lane, sublane, state, rank, run_at, id, max_attempts, keyed)
VALUES
  (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
