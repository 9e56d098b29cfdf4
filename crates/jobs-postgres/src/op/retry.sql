-- Puts parked and cancelled jobs back in line, due now, one after the other. Answers one row each:
-- `code` 0 unknown, 1 retried (with its line), 2 not in that `state`, 3 its key is held by `id` in
-- `state`.
CREATE FUNCTION jobs.retry(p_scope text, p_by text, p_tenants text[], p_ids uuid[])
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  i int4;
  v_now int8 := jobs.now_ms();
  f record;
  v jobs.live;
  d jobs.done;
  b jobs.body;
  a jobs.answer;
BEGIN
  PERFORM jobs.lock_all(p_scope, p_tenants, p_ids);
  -- Keys are taken in the order in which pushes take them.
  FOR i IN SELECT s.at::int4
    FROM unnest(p_ids, p_tenants) WITH ORDINALITY AS s(id, tenant, at)
    ORDER BY s.tenant COLLATE "C",
      (SELECT x.key FROM jobs.body x WHERE x.id = s.id AND x.tenant = s.tenant), s.at
  LOOP
    a := NULL;
    a.part := 3;
    a.at := i;
    a.code := 0;
    SELECT * INTO f FROM jobs.locked(p_scope, p_tenants[i], p_ids[i]);
    v := f.live;
    d := f.done;
    IF v.id IS NOT NULL THEN
      a.code := 2;
      a.state := v.state;
      IF v.state = 3 THEN
        UPDATE jobs.live x SET state = 1, run_at = v_now, attempt = 0, verb = 'retry', verb_by = p_by,
          verb_at = v_now WHERE x.id = v.id AND x.tenant = v.tenant;
        a.code := 1;
      END IF;
    ELSIF d.id IS NOT NULL THEN
      a.code := 2;
      a.state := d.state;
      IF d.state = 5 THEN
        SELECT x.* INTO b FROM jobs.body x WHERE x.id = d.id AND x.tenant = d.tenant;
        a.code := 1;
        IF b.key IS NOT NULL AND b.key_scope = 1 THEN
          INSERT INTO jobs.key (tenant, key, id) VALUES (b.tenant, b.key, b.id)
          ON CONFLICT (tenant, key) DO NOTHING;
          IF NOT FOUND THEN
            a.code := 3;
            SELECT k.id, x.state INTO a.id, a.state FROM jobs.key k
            JOIN jobs.live x ON x.id = k.id AND x.tenant = k.tenant
            WHERE k.tenant = b.tenant AND k.key = b.key;
            IF NOT FOUND THEN
              a.code := 4;
            END IF;
          END IF;
        END IF;
        IF a.code = 1 THEN
          DELETE FROM jobs.done x WHERE x.id = d.id AND x.tenant = d.tenant;
          INSERT INTO jobs.live (id, tenant, queue, name, suspect, state, rank, run_at, attempt,
            max_attempts, keyed, fence, nonce, outcome, snoozes, releases, verb, verb_by, verb_at)
          VALUES (d.id, d.tenant, d.queue, b.name, d.suspect, 1, -b.priority, v_now, 0,
            b.max_attempts, CASE WHEN b.key_scope = 1 THEN 1 ELSE 0 END, d.fence, d.nonce, d.outcome,
            d.snoozes, d.releases, 'retry', p_by, v_now);
        END IF;
      END IF;
    END IF;
    IF a.code = 1 THEN
      SELECT x.queue, x.tenant, x.id, x.name, x.suspect, x.rank, x.run_at
      INTO a.queue, a.tenant, a.id, a.name, a.suspect, a.rank, a.run_at FROM jobs.live x
      WHERE x.id = p_ids[i] AND x.tenant = p_tenants[i];
    END IF;
    RETURN NEXT a;
  END LOOP;
END $$;
