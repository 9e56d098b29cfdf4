-- Remembers what a reserve took. ?1 nonce, ?2 now, ?3 jobs, a JSON array.
INSERT INTO jobs_reserve (nonce, at, jobs) VALUES (?1, ?2, ?3)
