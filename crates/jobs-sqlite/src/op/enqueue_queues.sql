-- Makes the queues that are missing. ?1 [[queue, tenant, name], …]. Returns nothing.
INSERT INTO jobs_queue (name)
SELECT DISTINCT n.value ->> 0 FROM json_each(?1) n WHERE true
ON CONFLICT DO NOTHING
