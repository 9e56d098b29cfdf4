-- Makes the lanes that are missing. ?1 [[queue, tenant, name], …]. Returns nothing.
INSERT INTO jobs_lane (queue, tenant)
SELECT DISTINCT q.queue, n.value ->> 1
FROM json_each(?1) n CROSS JOIN jobs_queue q ON q.name = n.value ->> 0 WHERE true
ON CONFLICT DO NOTHING
