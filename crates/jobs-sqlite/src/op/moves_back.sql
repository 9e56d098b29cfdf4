-- Takes jobs from their holder, or moves waiting ones. ?1 [[job, state, due, attempt, sublane,
-- outcome or null, fence, nonce, snoozes more, releases more], …].
UPDATE jobs_live SET state = v.state, run_at = v.run_at, attempt = v.attempt, sublane = v.sublane,
  outcome = v.outcome, fence = v.fence, nonce = v.nonce, snoozes = min(snoozes, 1000000000) + v.snoozes_more,
  releases = min(releases, 1000000000) + v.releases_more, cancel = 0, lease_until = NULL, started_at = NULL,
  renewed_at = NULL, worker = NULL
FROM (SELECT n.value ->> 0 AS job, n.value ->> 1 AS state, n.value ->> 2 AS run_at,
    n.value ->> 3 AS attempt, n.value ->> 4 AS sublane, n.value ->> 5 AS outcome,
    n.value ->> 6 AS fence, n.value ->> 7 AS nonce, n.value ->> 8 AS snoozes_more,
    n.value ->> 9 AS releases_more
  FROM json_each(?1) n) v
WHERE jobs_live.job = v.job
