-- Stores what was pushed where jobs differ in number, line, id and payload only, as those of one
-- bulk push mostly do: four values a row, and not seventeen. Otherwise as enqueue_body.sql.
-- ?1 tenant, ?2 queue, ?3 lane, ?4 due, ?5 now, ?6 priority, ?7 most attempts, ?8 timeout,
-- ?9 action, ?10 authorized by.
INSERT INTO jobs_body (tenant, queue_number, lane, due, pushed_at, priority, max_attempts, timeout,
  key_scope, key, action, authorized_by, metadata, job, sublane, id, payload) VALUES
  (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, NULL, ?9, ?10, NULL, ?11, ?12, ?13, ?14)
ON CONFLICT (id, tenant) DO NOTHING
