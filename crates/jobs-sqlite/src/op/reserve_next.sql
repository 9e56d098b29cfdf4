-- When the next scheduled job of known names is due, one seek for each name: a hint, which is early
-- where that job was cancelled. ?1 queue, ?2 names, a JSON array.
SELECT min((SELECT min(w.due) FROM jobs_sublane w
  WHERE w.queue = ?1 AND w.name = n.value AND w.due IS NOT NULL))
FROM json_each(?2) n
