-- Version 1. Migrations only add.
-- Instants are milliseconds since 1970 by jobs_meta.clock. States and outcomes are the numbers of
-- State::ALL and OutcomeKind::ALL. A sublane's number is even; the odd number above it holds the
-- same name's suspects, so that they are found and left without a scan.

-- The highest "now" ever used: a clock that steps back reorders and resurrects nothing.
CREATE TABLE jobs_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  clock INTEGER NOT NULL
) STRICT;
INSERT INTO jobs_meta VALUES (1, 0);

-- `changed` is the verb that last changed the settings, of a queue or of one of its lanes.
-- `wake` counts group commits that brought work, `done` counts what retention by number looks at.
CREATE TABLE jobs_queue (
  queue INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  weight INTEGER,
  paused_until INTEGER,
  changed TEXT,
  changed_by TEXT,
  changed_at INTEGER,
  wake INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE jobs_lane (
  lane INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  weight INTEGER,
  paused_until INTEGER,
  changed TEXT,
  changed_by TEXT,
  changed_at INTEGER,
  UNIQUE (queue, tenant)
) STRICT;
CREATE INDEX jobs_lane_tenant ON jobs_lane (tenant);
CREATE INDEX jobs_lane_changed ON jobs_lane (queue) WHERE changed_at IS NOT NULL;
CREATE INDEX jobs_lane_paused ON jobs_lane (queue, paused_until) WHERE paused_until IS NOT NULL;

-- One name of one lane. `ring`: 0 idle, 1 may have ready jobs, 2 paused. `vt` is when its last visit
-- ended in virtual time, `visited` when that was; the rows of a lane whose number is the queue's,
-- negated, are the names' virtual nows. No scheduled job is due before `due`: early is harmless.
CREATE TABLE jobs_sublane (
  sublane INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  name TEXT NOT NULL,
  suspect INTEGER NOT NULL,
  ring INTEGER NOT NULL DEFAULT 0,
  vt INTEGER NOT NULL DEFAULT 0,
  visited INTEGER NOT NULL DEFAULT 0,
  due INTEGER,
  UNIQUE (lane, name, suspect)
) STRICT;
CREATE INDEX jobs_wait ON jobs_sublane (queue, name, due) WHERE due IS NOT NULL;
CREATE INDEX jobs_ring ON jobs_sublane (queue, name, vt, lane) WHERE ring = 1;

-- What was pushed, and where: queue, tenant and name are those of its lane and sublane. Its row is the job's identity and lives as long as the job is stored
-- at all, stubs included. Identity is by id first: ids grow, so that pushes of all tenants end in
-- one place of the index. `due` is when it was due at its push. The payload is last, because what
-- lies behind a large one is read through it.
CREATE TABLE jobs_body (
  job INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id BLOB NOT NULL,
  queue_number INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  sublane INTEGER NOT NULL,
  due INTEGER NOT NULL,
  pushed_at INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  timeout INTEGER NOT NULL,
  key_scope INTEGER NOT NULL,
  key TEXT,
  action TEXT NOT NULL,
  authorized_by TEXT NOT NULL,
  metadata TEXT,
  payload TEXT NOT NULL,
  UNIQUE (id, tenant)
) STRICT;
-- Lists walk it newest id first, a tenant's and a queue's lane by lane.
CREATE INDEX jobs_body_lane ON jobs_body (lane, id);

-- The jobs in line, in the order of each line. A job that was never taken is here and in jobs_body
-- only: a push writes four entries, and a backlog costs no more. Rejected: a row in jobs_live from
-- the start, which makes a bulk push 1.5 times dearer. `rank` is the negated priority.
CREATE TABLE jobs_ready (
  sublane INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  id BLOB NOT NULL,
  job INTEGER NOT NULL,
  keyed INTEGER NOT NULL,
  PRIMARY KEY (sublane, rank, run_at, id, job)
) STRICT, WITHOUT ROWID;

-- What changes while a job lives, from when it is first taken, scheduled or changed by hand.
-- `keyed` is 1 while it holds a key until finished, 2 until started; `outcome` is how its newest
-- claim (fence, nonce) was settled.
CREATE TABLE jobs_live (
  job INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  sublane INTEGER NOT NULL,
  state INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  id BLOB NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  keyed INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  nonce INTEGER NOT NULL DEFAULT 0,
  outcome INTEGER,
  lease_until INTEGER,
  started_at INTEGER,
  renewed_at INTEGER,
  worker TEXT,
  cancel INTEGER NOT NULL DEFAULT 0,
  snoozes INTEGER NOT NULL DEFAULT 0,
  releases INTEGER NOT NULL DEFAULT 0,
  verb TEXT,
  verb_by TEXT,
  verb_at INTEGER
) STRICT;
CREATE INDEX jobs_lease ON jobs_live (lease_until) WHERE state = 2;
CREATE INDEX jobs_due ON jobs_live (queue, run_at) WHERE state = 0;
CREATE INDEX jobs_due_first ON jobs_live (sublane, run_at) WHERE state = 0;
-- Whoever schedules a job, its sublane knows when to look at it.
CREATE TRIGGER jobs_pushed_to_wait AFTER INSERT ON jobs_live WHEN new.state = 0 BEGIN
  UPDATE jobs_sublane SET due = new.run_at
  WHERE sublane = new.sublane AND (due IS NULL OR due > new.run_at);
END;
CREATE TRIGGER jobs_moved_to_wait AFTER UPDATE OF state ON jobs_live WHEN new.state = 0 BEGIN
  UPDATE jobs_sublane SET due = new.run_at
  WHERE sublane = new.sublane AND (due IS NULL OR due > new.run_at);
END;
-- Whoever is ready is in line, and nobody else.
CREATE TRIGGER jobs_made_ready AFTER INSERT ON jobs_live WHEN new.state = 1 BEGIN
  INSERT OR IGNORE INTO jobs_ready
  VALUES (new.sublane, new.rank, new.run_at, new.id, new.job, new.keyed);
END;
CREATE TRIGGER jobs_moved_to_ready AFTER UPDATE OF state ON jobs_live
WHEN new.state = 1 AND old.state <> 1 BEGIN
  INSERT OR IGNORE INTO jobs_ready
  VALUES (new.sublane, new.rank, new.run_at, new.id, new.job, new.keyed);
END;
CREATE TRIGGER jobs_moved_from_ready AFTER UPDATE OF state ON jobs_live
WHEN old.state = 1 AND new.state <> 1 BEGIN
  DELETE FROM jobs_ready WHERE sublane = old.sublane AND rank = old.rank
    AND run_at = old.run_at AND id = old.id AND job = old.job;
END;
CREATE TRIGGER jobs_gone_from_ready AFTER DELETE ON jobs_live WHEN old.state = 1 BEGIN
  DELETE FROM jobs_ready WHERE sublane = old.sublane AND rank = old.rank
    AND run_at = old.run_at AND id = old.id AND job = old.job;
END;
-- Lists of the cold states walk these newest id first, a tenant's by lane, an operator's by queue.
-- The hot ones walk the bodies, which cost one entry a job instead of one a state.
CREATE INDEX jobs_list_scheduled ON jobs_live (lane, id) WHERE state = 0;
CREATE INDEX jobs_list_parked ON jobs_live (lane, id) WHERE state = 3;
CREATE INDEX jobs_all_scheduled ON jobs_live (queue, id) WHERE state = 0;
CREATE INDEX jobs_all_parked ON jobs_live (queue, id) WHERE state = 3;

CREATE TABLE jobs_key (
  tenant TEXT NOT NULL,
  key TEXT NOT NULL,
  job INTEGER NOT NULL,
  PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

-- Finished jobs. A done row is also its last attempt, so the happy path writes no other.
CREATE TABLE jobs_done (
  job INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  sublane INTEGER NOT NULL,
  id BLOB NOT NULL,
  state INTEGER NOT NULL,
  stub INTEGER NOT NULL DEFAULT 0,
  run_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  nonce INTEGER NOT NULL,
  outcome INTEGER,
  started_at INTEGER,
  worker TEXT,
  snoozes INTEGER NOT NULL,
  releases INTEGER NOT NULL,
  verb TEXT,
  verb_by TEXT,
  verb_at INTEGER
) STRICT;
CREATE INDEX jobs_done_age ON jobs_done (queue, ended_at) WHERE state = 4 AND stub = 0;
CREATE INDEX jobs_cancelled_age ON jobs_done (ended_at) WHERE state = 5 AND stub = 0;
CREATE INDEX jobs_list_cancelled ON jobs_done (lane, id) WHERE state = 5 AND stub = 0;
CREATE INDEX jobs_all_cancelled ON jobs_done (queue, id) WHERE state = 5 AND stub = 0;
CREATE INDEX jobs_stub ON jobs_done (ended_at) WHERE stub = 1;

-- Attempts that ended, but for the last one of a done job.
CREATE TABLE jobs_attempt (
  job INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  number INTEGER NOT NULL,
  worker TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  cause TEXT,
  UNIQUE (job, fence)
) STRICT;

CREATE TABLE jobs_minute (
  at INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  PRIMARY KEY (at, lane)
) STRICT, WITHOUT ROWID;

-- What each reserve took: its repetition answers it until its lease's end and a little longer. One row a reserve costs less than an index on
-- the nonce, which is one entry more a job and delivery.
CREATE TABLE jobs_reserve (
  nonce INTEGER PRIMARY KEY,
  until INTEGER NOT NULL,
  jobs TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_reserve_until ON jobs_reserve (until);

CREATE TABLE jobs_worker (
  id BLOB PRIMARY KEY,
  doc TEXT NOT NULL,
  since INTEGER NOT NULL,
  seen INTEGER NOT NULL
) STRICT;
