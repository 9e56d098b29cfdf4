-- Stores what was pushed. The row is repeated for each job; the conflict is the job's identity, so
-- a duplicate is an answer and no error. Numbers are given by the writer, which holds the write
-- lock: the count of changes says whether all are new, without a row back for each.
-- Rejected: RETURNING, a row through the driver's channel for each of the 99.9 % that are new; one
-- row a statement, whose cursors are opened again for each: half the rate.
INSERT INTO jobs_body (job, tenant, id, queue_number, lane, sublane, due, pushed_at, priority,
  max_attempts, timeout, key_scope, key, action, authorized_by, metadata, payload) VALUES
  (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
ON CONFLICT (id, tenant) DO NOTHING
