-- The queues in a list. ?1 queue's name or null for all. Returns queue.
SELECT q.queue FROM jobs_queue q WHERE ?1 IS NULL OR q.name = ?1
