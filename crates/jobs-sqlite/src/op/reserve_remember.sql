-- Remembers what a reserve took, or that its repetition extended it. ?1 nonce, ?2 lease's end,
-- ?3 jobs, a JSON array.
INSERT INTO jobs_reserve (nonce, until, jobs) VALUES (?1, ?2, ?3)
ON CONFLICT (nonce) DO UPDATE SET until = excluded.until
