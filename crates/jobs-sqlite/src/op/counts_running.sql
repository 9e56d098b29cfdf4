-- Running jobs by lane, from the leases, which are as few as workers have slots. ?1 now.
-- Returns lane, running, expired, earliest due of the expired.
SELECT l.lane, sum(l.lease_until > ?1), sum(l.lease_until <= ?1),
  min(CASE WHEN l.lease_until <= ?1 THEN l.run_at END)
FROM jobs_live l WHERE l.state = 2 GROUP BY l.lane
