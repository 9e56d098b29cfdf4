-- The workers alive: seen in the last minute. Returns id, document, since, seen.
SELECT w.id, w.doc, w.since, w.seen FROM jobs.worker w
WHERE w.seen + 60000 > jobs.now_ms() ORDER BY w.id
