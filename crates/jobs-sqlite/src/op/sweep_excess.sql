-- Queues with more done jobs than stay. ?1 how many stay. Returns queue, how many too many.
-- Rejected: counting the index at each sweep, 3 ms at 100,000 for each queue.
SELECT queue, done - ?1 FROM jobs_queue WHERE done > ?1
