-- The workers alive. ?1 last seen after. Returns id, document, since, seen.
SELECT id, doc, since, seen FROM jobs_worker WHERE seen > ?1 ORDER BY id
