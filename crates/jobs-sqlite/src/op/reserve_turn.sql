-- Moves a queue's virtual now. ?1 queue, ?2 virtual now.
UPDATE jobs_queue SET vt = max(vt, ?2) WHERE queue = ?1
