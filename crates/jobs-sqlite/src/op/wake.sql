-- Counts one wake-up for each queue that got work in this transaction.
-- ?1 queues, a JSON array. Returns the queues' names and counts.
-- Rejected: a row per push, which other processes would have to read and somebody to delete.
UPDATE jobs_queue SET wake = wake + 1 WHERE queue IN (SELECT value FROM json_each(?1))
RETURNING name, wake
