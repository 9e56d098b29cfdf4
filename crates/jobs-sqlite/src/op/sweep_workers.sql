-- Forgets workers that are silent. ?1 last seen before.
DELETE FROM jobs_worker WHERE seen <= ?1
