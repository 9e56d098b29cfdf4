-- Takes keys that are known to be free; a row in the way is of a job that is gone. ?1 [[tenant, key, job], …].
INSERT INTO jobs_key (tenant, key, job)
SELECT n.value ->> 0, n.value ->> 1, n.value ->> 2 FROM json_each(?1) n WHERE true
ON CONFLICT (tenant, key) DO UPDATE SET job = excluded.job
