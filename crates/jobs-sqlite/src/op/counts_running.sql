-- Running jobs by lane, from the leases, which are as few as workers have slots. One without the end
-- of its lease is over, as for the sweep. ?1 now. Returns lane, running, expired, earliest due of
-- the expired.
SELECT x.lane, sum(x.until > ?1), sum(x.until <= ?1),
  min(CASE WHEN x.until <= ?1 THEN x.run_at END)
FROM (SELECT l.lane, l.run_at, coalesce(l.lease_until, 0) AS until
  FROM jobs_live l WHERE l.state = 2) x GROUP BY x.lane
