-- The newest jobs of one cold state, of each lane or queue its share. All jobs that have the last id
-- of a share come with it, so that a share never ends between two tenants' equal ids.
-- TABLE, STATE and PLACE are replaced. ?1 before this id, ?2 or this id and a lesser tenant,
-- ?3 a share, ?4 lanes or queues, a JSON array. Returns job, id, tenant, lane or queue.
SELECT x.job, x.id, l.tenant, n.value
FROM json_each(?4) n
CROSS JOIN TABLE x ON x.PLACE = n.value AND STATE AND x.id <= ?1
  AND x.id >= coalesce((SELECT min(s.id) FROM (
    SELECT id FROM TABLE WHERE PLACE = n.value AND STATE AND id < ?1
    ORDER BY id DESC LIMIT ?3) s), ?1)
CROSS JOIN jobs_lane l ON l.lane = x.lane
WHERE (x.id, l.tenant) < (?1, ?2)
ORDER BY x.id DESC, l.tenant DESC
