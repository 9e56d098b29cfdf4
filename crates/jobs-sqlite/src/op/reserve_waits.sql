-- Puts sublanes whose due jobs were promoted in the ring, and says when their next one is due: those
-- with more due now come after all others that are due already. ?1 sublanes, a JSON array, ?2 now.
UPDATE jobs_sublane SET ring = CASE ring WHEN 0 THEN 1 ELSE ring END,
  due = (SELECT max(min(l.run_at), ?2) FROM jobs_live l
    WHERE l.sublane = jobs_sublane.sublane AND l.state = 0)
WHERE sublane IN (SELECT value FROM json_each(?1))
