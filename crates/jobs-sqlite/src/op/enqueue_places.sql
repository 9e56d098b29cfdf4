-- Looks places up. ?1 [[queue, tenant, name], …]. Returns index, queue, lane, sublane.
SELECT n.key, s.queue, s.lane, s.sublane
FROM json_each(?1) n
CROSS JOIN jobs_queue q ON q.name = n.value ->> 0
CROSS JOIN jobs_lane l ON l.queue = q.queue AND l.tenant = n.value ->> 1
CROSS JOIN jobs_sublane s ON s.lane = l.lane AND s.name = n.value ->> 2 AND s.suspect = 0
