-- Version 1. Migrations only add. `jobs.` stands for the schema.
-- Instants are milliseconds since 1970 by the server's clock. States and outcomes are the numbers of
-- State::ALL and OutcomeKind::ALL. Text sorts by its bytes: the order is the same everywhere, and
-- comparing costs a memcmp.
-- Rejected: numbers for queues, tenants and names. A push inside a caller's transaction would have to
-- make the number of a new tenant there, and keep everybody else's first push of that tenant waiting
-- until the caller commits. Names cost 10 bytes an entry.

-- What was pushed. Its row is the job's identity and lives as long as the job is stored at all, stubs
-- included: never updated, so never vacuumed for it. Ids grow, so pushes of all tenants end in one
-- place of the index. `due` is when it was due at its push. Rejected: jsonb, which refuses \u0000,
-- reorders and drops keys; text, which is checked and converted by the database's encoding.
CREATE TABLE jobs.body (
  due int8 NOT NULL,
  pushed_at int8 NOT NULL,
  timeout int8 NOT NULL,
  max_attempts int4 NOT NULL,
  priority int2 NOT NULL,
  key_scope int2 NOT NULL,
  id uuid NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  action text COLLATE "C" NOT NULL,
  authorized_by text COLLATE "C" NOT NULL,
  key text COLLATE "C",
  metadata text COLLATE "C",
  payload bytea NOT NULL,
  PRIMARY KEY (id, tenant)
);
-- Lists of a tenant or of a queue with few walk it newest id first, lane by lane.
CREATE INDEX body_lane ON jobs.body (queue, tenant, id);

-- Where a live job stands: narrow, because each of its turns writes a new version of the row.
-- `rank` is the negated priority; `keyed` is 1 while it holds a key until finished, 2 until started;
-- `outcome` is how its newest claim (fence, nonce) was settled; a nonce of 0 is nobody's.
-- What is always there comes first, so that indexed columns are found without walking over what may not be
-- (7 % of a claim). The key's pages are left half empty: a claim is a new version of the row, whose entry
-- otherwise has no room beside the first one's (10 %).
CREATE TABLE jobs.live (
  run_at int8 NOT NULL,
  fence int8 NOT NULL DEFAULT 0,
  nonce int8 NOT NULL DEFAULT 0,
  id uuid NOT NULL,
  -- Of 15 s, so that most renewals change no index; of a damaged row the last.
  lease_slot int8 NOT NULL GENERATED ALWAYS AS (coalesce(lease_until, 9223372036854775807) / 15000) STORED,
  attempt int4 NOT NULL DEFAULT 0,
  max_attempts int4 NOT NULL,
  snoozes int4 NOT NULL DEFAULT 0,
  releases int4 NOT NULL DEFAULT 0,
  state int2 NOT NULL,
  rank int2 NOT NULL,
  keyed int2 NOT NULL DEFAULT 0,
  suspect bool NOT NULL DEFAULT false,
  cancel bool NOT NULL DEFAULT false,
  tenant text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  lease_until int8,
  started_at int8,
  renewed_at int8,
  verb_at int8,
  outcome int2,
  worker text COLLATE "C",
  verb text COLLATE "C",
  verb_by text COLLATE "C",
  PRIMARY KEY (id, tenant) WITH (fillfactor = 45),
  -- A row changed by hand must not stop everybody's queue: a reserve adds to both.
  CHECK (fence < 4611686018427387904 AND attempt < 1073741824 AND rank BETWEEN -100 AND 100)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 20000);
-- The lines: of one name and tenant, in the order of delivery. Unknown names are never walked.
CREATE INDEX live_ready ON jobs.live (queue, name, suspect, tenant, rank, run_at, id) WHERE state = 1;
CREATE INDEX live_due ON jobs.live (queue, name, run_at) WHERE state = 0;
CREATE INDEX live_due_all ON jobs.live (run_at) WHERE state = 0;
CREATE INDEX live_due_lane ON jobs.live (queue, name, tenant, run_at) WHERE state = 0;
-- By the end of the lease, so that a sweep, a count and a list of the running go from a floor on and
-- not over all that ran since somebody's long snapshot began. As few as workers have slots, so a lane's
-- are picked inside the index. Rejected: by lane, where such a walk has no floor (53,391 buffers a sweep
-- after 50,000 jobs); by the exact end, where each renewal is a new entry in every index of the row.
CREATE INDEX live_running ON jobs.live (lease_slot, queue, tenant, id) WHERE state = 2;
-- Lists of the cold states walk these newest id first.
CREATE INDEX live_scheduled_all ON jobs.live (queue, id, tenant) WHERE state = 0;
CREATE INDEX live_scheduled_lane ON jobs.live (tenant, queue, id) WHERE state = 0;
CREATE INDEX live_parked_all ON jobs.live (queue, id, tenant) WHERE state = 3;
CREATE INDEX live_parked_lane ON jobs.live (tenant, queue, id) WHERE state = 3;

CREATE TABLE jobs.key (
  tenant text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  id uuid NOT NULL,
  PRIMARY KEY (tenant, key)
);

-- Finished jobs. A done row is also its last attempt, so the happy path writes no other.
CREATE TABLE jobs.done (
  run_at int8 NOT NULL,
  ended_at int8 NOT NULL,
  fence int8 NOT NULL,
  nonce int8 NOT NULL,
  started_at int8,
  verb_at int8,
  attempt int4 NOT NULL,
  snoozes int4 NOT NULL,
  releases int4 NOT NULL,
  state int2 NOT NULL,
  outcome int2,
  suspect bool NOT NULL,
  stub bool NOT NULL DEFAULT false,
  id uuid NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  worker text COLLATE "C",
  verb text COLLATE "C",
  verb_by text COLLATE "C",
  PRIMARY KEY (id, tenant)
);
CREATE INDEX done_age ON jobs.done (queue, ended_at) WHERE state = 4 AND NOT stub;
CREATE INDEX done_cancelled_age ON jobs.done (ended_at) WHERE state = 5 AND NOT stub;
CREATE INDEX done_cancelled_all ON jobs.done (queue, id, tenant) WHERE state = 5 AND NOT stub;
CREATE INDEX done_cancelled_lane ON jobs.done (tenant, queue, id) WHERE state = 5 AND NOT stub;
CREATE INDEX done_stub ON jobs.done (ended_at) WHERE stub;

-- Attempts that ended, but for the last one of a done job.
CREATE TABLE jobs.attempt (
  fence int8 NOT NULL,
  started_at int8 NOT NULL,
  ended_at int8 NOT NULL,
  number int4 NOT NULL,
  outcome int2 NOT NULL,
  id uuid NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  worker text COLLATE "C" NOT NULL,
  cause text COLLATE "C",
  PRIMARY KEY (id, tenant, fence)
);

-- What each reserve took: its repetition answers it. One row a reserve costs less than an index on
-- the nonce, which is one entry more a job and delivery.
CREATE TABLE jobs.taken (
  nonce int8 PRIMARY KEY,
  until int8 NOT NULL,
  ids uuid[] NOT NULL,
  tenants text[] NOT NULL
);
-- Written once and hardly ever read: not worth compressing.
ALTER TABLE jobs.taken ALTER ids SET STORAGE EXTERNAL, ALTER tenants SET STORAGE EXTERNAL;
CREATE INDEX taken_until ON jobs.taken (until);

-- The turns of lanes with work at each name (R5): `finish` is when the lane's last visit ended in
-- virtual time; the row of tenant '' is the name's virtual now. A charge is a new row with a greater
-- finish, and the newest is read from the index's end: older versions are never walked over, even
-- while somebody's snapshot keeps them from being vacuumed.
CREATE TABLE jobs.turn (
  finish int8 NOT NULL,
  visited int8 NOT NULL,
  queue text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  PRIMARY KEY (queue, name, tenant, finish)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX turn_visited ON jobs.turn (visited) WHERE tenant <> '';

-- Settings, of a queue and every lane that comes later, or of one lane. `changed` is the verb.
CREATE TABLE jobs.queue (
  queue text COLLATE "C" PRIMARY KEY,
  weight int4 CHECK (weight >= 1),
  paused_until int8,
  changed text COLLATE "C",
  changed_by text COLLATE "C",
  changed_at int8
);
CREATE TABLE jobs.lane (
  queue text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  weight int4 CHECK (weight >= 1),
  paused_until int8,
  changed text COLLATE "C",
  changed_by text COLLATE "C",
  changed_at int8,
  PRIMARY KEY (queue, tenant)
);
CREATE INDEX lane_tenant ON jobs.lane (tenant, queue);

-- What ended, a row each statement and lane, summed when read: nobody waits for anybody's count. A
-- sweep adds up the minutes that are over.
CREATE TABLE jobs.minute (
  at int8 NOT NULL,
  finished int8 NOT NULL,
  failed int8 NOT NULL,
  whole bool NOT NULL DEFAULT false,
  queue text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL
);
CREATE INDEX minute_at ON jobs.minute (at, queue, tenant) WHERE whole;
CREATE INDEX minute_tenant ON jobs.minute (tenant, at) WHERE whole;
CREATE INDEX minute_parts ON jobs.minute (at) WHERE NOT whole;

-- Where sweeps go on: of `what` nothing is left before `floor`; `next` is the floor once the transactions
-- up to `next_xid` are over. `cut` is the instant up to which there are too many, more than `keep`, as it
-- was at `cut_at`. After instants were changed by hand, empty it.
CREATE TABLE jobs.swept (
  floor int8 NOT NULL,
  next int8,
  next_xid xid8,
  cut int8,
  keep int8,
  cut_at int8,
  what text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  PRIMARY KEY (what, queue)
);

CREATE TABLE jobs.worker (
  id uuid PRIMARY KEY,
  doc text NOT NULL,
  since int8 NOT NULL,
  seen int8 NOT NULL
);

-- One answer of settle and reserve, whatever its part: 0 the reserve's head, 1 a delivery, 2 a line,
-- 3 the answer to a settlement, 4 the virtual now of a name, 5 the head of settlements. Frozen: functions
-- and cached statements of this version name its columns one by one, so a version that needs more makes a
-- type and functions of its own beside these.
CREATE TYPE jobs.answer AS (
  part int2, at int4, code int2, state int2,
  queue text, tenant text, id uuid, name text, suspect bool, rank int2, run_at int8,
  fence int8, attempt int4, action text, authorized_by text, payload bytea, max_attempts int4,
  timeout int8, key text, key_scope int2, metadata text
);

-- Now, in whole milliseconds, rounded down. Not the transaction's start.
CREATE FUNCTION jobs.now_ms() RETURNS int8 LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 $$;
