-- The workers alive: seen in the last minute. Returns id, document, since, seen.
SELECT w.id, w.doc, w.since, w.seen FROM jobs.worker w
WHERE w.seen > jobs.now_ms() - 60000 ORDER BY w.id
