-- Makes the sublanes that are missing, each with its twin for suspects, out of the ring where the
-- lane is paused. ?1 [[queue, tenant, name], …].
-- Rejected: one row with a flag in the ready index, where suspects are scanned past.
WITH fresh AS (
  SELECT DISTINCT l.queue, l.lane, n.value ->> 2 AS name, l.paused_until
  FROM json_each(?1) n
  CROSS JOIN jobs_queue q ON q.name = n.value ->> 0
  CROSS JOIN jobs_lane l ON l.queue = q.queue AND l.tenant = n.value ->> 1
  WHERE NOT EXISTS (SELECT 1 FROM jobs_sublane s WHERE s.lane = l.lane AND s.name = n.value ->> 2)
), numbered AS (
  SELECT fresh.*, row_number() OVER () AS nth FROM fresh
)
INSERT INTO jobs_sublane (sublane, queue, lane, name, suspect, ring)
SELECT 2 * ((SELECT coalesce(max(sublane), 0) / 2 FROM jobs_sublane) + f.nth) + twin.value,
  f.queue, f.lane, f.name, twin.value, CASE WHEN f.paused_until IS NULL THEN 0 ELSE 2 END
FROM numbered f CROSS JOIN json_each('[0,1]') twin
