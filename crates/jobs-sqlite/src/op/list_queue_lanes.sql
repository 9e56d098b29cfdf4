-- The lanes of a queue. ?1 queue's name, ?2 most. Returns lane.
SELECT l.lane FROM jobs_lane l WHERE l.queue = (SELECT queue FROM jobs_queue WHERE name = ?1)
LIMIT ?2
