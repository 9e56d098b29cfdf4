-- A worker lives. ?1 id, ?2 as it announced itself, JSON, ?3 now.
INSERT INTO jobs_worker (id, doc, since, seen) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, seen = excluded.seen
