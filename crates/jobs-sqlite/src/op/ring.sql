-- Puts sublanes that got a ready job in the ring of their queue, unless they are paused.
-- ?1 sublanes, a JSON array.
UPDATE jobs_sublane SET ring = 1
WHERE sublane IN (SELECT value FROM json_each(?1)) AND ring = 0
