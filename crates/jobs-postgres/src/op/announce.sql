-- A worker lives. $1 id, $2 as it announced itself, JSON.
INSERT INTO jobs.worker AS w (id, doc, since, seen)
SELECT $1, $2, n.now, n.now FROM jobs.now_ms() AS n(now)
ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, seen = excluded.seen,
  since = CASE WHEN w.seen + 60000 > excluded.seen THEN w.since ELSE excluded.since END
