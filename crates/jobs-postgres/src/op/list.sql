-- Jobs as operators see them, in the order asked; stubs are not seen. Stable, so that a page, a job and
-- its attempts are of one snapshot.
CREATE FUNCTION jobs.views(p_ids uuid[], p_tenants text[]) RETURNS TABLE (
  queue text, tenant text, id uuid, name text, suspect bool, rank int2, run_at int8, fence int8,
  attempt int4, action text, authorized_by text, payload bytea, max_attempts int4, timeout int8,
  key text, key_scope int2, metadata text, state int2, pushed_at int8, ended_at int8, cancel bool,
  cause text, worker text, started_at int8, renewed_at int8, lease_until int8, snoozes int4,
  releases int4, verb text, verb_by text, verb_at int8, last_worker text, last_started_at int8
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT b.queue, b.tenant, b.id, b.name, coalesce(l.suspect, d.suspect), (-greatest(b.priority, -32767))::int2,
      coalesce(l.run_at, d.run_at), coalesce(l.fence, d.fence), coalesce(l.attempt, d.attempt), b.action,
      b.authorized_by, b.payload, b.max_attempts, b.timeout, b.key, b.key_scope, b.metadata,
      coalesce(l.state, d.state), b.pushed_at, d.ended_at, coalesce(l.cancel, false),
      (SELECT a.cause FROM jobs.attempt a WHERE a.id = b.id AND a.tenant = b.tenant
        AND a.cause IS NOT NULL ORDER BY a.fence DESC LIMIT 1),
      l.worker, l.started_at, l.renewed_at, l.lease_until, coalesce(l.snoozes, d.snoozes),
      coalesce(l.releases, d.releases), coalesce(l.verb, d.verb), coalesce(l.verb_by, d.verb_by),
      coalesce(l.verb_at, d.verb_at), d.worker, d.started_at
    FROM unnest(p_ids, p_tenants) WITH ORDINALITY AS s(id, tenant, at)
    JOIN jobs.body b ON b.id = s.id AND b.tenant = s.tenant
    LEFT JOIN jobs.live l ON l.id = b.id AND l.tenant = b.tenant
    LEFT JOIN jobs.done d ON d.id = b.id AND d.tenant = b.tenant
    WHERE (l.id IS NOT NULL OR d.id IS NOT NULL) AND d.stub IS NOT true
    ORDER BY s.at;
END $$;

-- Walks an index newest id first, chunk by chunk, until the page is full, the rows end, or 1,000 rows or
-- 250 ms are spent. Every row read counts, stubs and those the filters drop too. Answers the page's
-- jobs, where it ended (null at the end), whether its stretch was looked at whole, and now.
-- Which index: the cold states have their own, of a tenant's queues or of a queue. Running jobs are
-- those that workers have slots for, and all of a page's scope are read from the index by lease; so are
-- ready ones from the lines, where no more than 10,000 are in scope. All else walks the bodies, lane by
-- lane of a tenant or of a queue with at most 200, or all of them, and filters: of a longer backlog, a
-- page whose newest 1,000 bodies have all ended is empty and says where to go on.
-- Rejected: an index of ready jobs by lane and id, one more entry to write and one more dead for each job.
CREATE FUNCTION jobs.list(
  p_tenant text, p_queue text, p_state int2, p_name text, p_id uuid, p_cause text, p_page int4,
  p_after_id uuid, p_after_tenant text
) RETURNS TABLE (ids uuid[], tenants text[], next_id uuid, next_tenant text, complete bool, now int8)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  c_rows CONSTANT int4 := 1000;
  c_chunk CONSTANT int4 := 250;
  c_lanes CONSTANT int4 := 200;
  c_few CONSTANT int4 := 10000;
  v_began timestamptz := clock_timestamp();
  v_looked int4 := 0;
  v_id uuid := coalesce(p_after_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  -- As the columns sort, whatever the database's collation.
  v_tenant text COLLATE "C" := coalesce(p_after_tenant, '');
  v_queues text[] := ARRAY[p_queue];
  v_lanes text[] := ARRAY[p_tenant];
  v_ids uuid[];
  v_tenants text[] COLLATE "C";
  v_parts text[];
  v_match bool[];
  v_share int4;
  v_chunk int4;
  v_count int4;
  v_last bool;
  v_end uuid;
  v_end_tenant text COLLATE "C";
  v_few bool := false;
  v_few_ids uuid[];
  v_few_tenants text[] COLLATE "C";
  -- '~' is after all names.
  v_from text := coalesce(p_tenant, '');
  v_to text := coalesce(p_tenant, '~');
  v_queue_from text := coalesce(p_queue, '');
  v_queue_to text := coalesce(p_queue, '~');
  v_slot int8;
BEGIN
  ids := '{}';
  tenants := '{}';
  complete := true;
  now := jobs.now_ms();
  IF p_state = 2 THEN
    v_few := true;
    v_slot := jobs.floor_of('lease', '', now) / 15000;
    SELECT array_agg(x.id), array_agg(x.tenant) INTO v_few_ids, v_few_tenants FROM (
      SELECT v.id, v.tenant FROM jobs.live v
      WHERE v.state = 2 AND v.lease_slot >= v_slot AND v.queue >= v_queue_from AND v.queue <= v_queue_to
        AND v.tenant >= v_from AND v.tenant <= v_to AND (v.id, v.tenant) < (v_id, v_tenant)
      ORDER BY v.id DESC, v.tenant DESC LIMIT c_rows + 1) x;
  ELSIF p_state = 1 THEN
    SELECT x.ids, x.tenants, x.complete INTO v_few_ids, v_few_tenants, v_few
    FROM jobs.ready(p_tenant, p_queue, c_few) x;
  END IF;
  IF v_few THEN
    v_lanes := ARRAY[NULL::text];
  ELSIF p_queue IS NULL AND (p_tenant IS NOT NULL OR p_state IN (0, 3, 5)) THEN
    IF p_tenant IS NOT NULL THEN
      WITH RECURSIVE q AS (
        (SELECT b.queue FROM jobs.body b ORDER BY b.queue LIMIT 1)
        UNION ALL
        SELECT x.queue FROM q CROSS JOIN LATERAL (SELECT b.queue FROM jobs.body b
          WHERE b.queue > q.queue ORDER BY b.queue LIMIT 1) x)
      SELECT array_agg(q.queue), array_agg(p_tenant) INTO v_queues, v_lanes FROM q
      WHERE EXISTS (SELECT 1 FROM jobs.body b WHERE b.queue = q.queue AND b.tenant = p_tenant);
    ELSIF p_state = 0 THEN
      WITH RECURSIVE q AS (
        (SELECT b.queue FROM jobs.live b WHERE b.state = 0 ORDER BY b.queue LIMIT 1)
        UNION ALL
        SELECT x.queue FROM q CROSS JOIN LATERAL (SELECT b.queue FROM jobs.live b
          WHERE b.state = 0 AND b.queue > q.queue ORDER BY b.queue LIMIT 1) x)
      SELECT array_agg(q.queue) INTO v_queues FROM q;
    ELSIF p_state = 3 THEN
      WITH RECURSIVE q AS (
        (SELECT b.queue FROM jobs.live b WHERE b.state = 3 ORDER BY b.queue LIMIT 1)
        UNION ALL
        SELECT x.queue FROM q CROSS JOIN LATERAL (SELECT b.queue FROM jobs.live b
          WHERE b.state = 3 AND b.queue > q.queue ORDER BY b.queue LIMIT 1) x)
      SELECT array_agg(q.queue) INTO v_queues FROM q;
    ELSE
      WITH RECURSIVE q AS (
        (SELECT b.queue FROM jobs.done b WHERE b.state = 5 AND NOT b.stub ORDER BY b.queue LIMIT 1)
        UNION ALL
        SELECT x.queue FROM q CROSS JOIN LATERAL (SELECT b.queue FROM jobs.done b
          WHERE b.state = 5 AND NOT b.stub AND b.queue > q.queue ORDER BY b.queue LIMIT 1) x)
      SELECT array_agg(q.queue) INTO v_queues FROM q;
    END IF;
    IF v_queues IS NULL THEN
      RETURN NEXT;
      RETURN;
    END IF;
  ELSIF p_queue IS NOT NULL AND p_tenant IS NULL AND (p_state IS NULL OR p_state IN (1, 2, 4)) THEN
    WITH RECURSIVE q AS (
      (SELECT b.tenant FROM jobs.body b WHERE b.queue = p_queue ORDER BY b.tenant LIMIT 1)
      UNION ALL
      SELECT x.tenant FROM q CROSS JOIN LATERAL (SELECT b.tenant FROM jobs.body b
        WHERE b.queue = p_queue AND b.tenant > q.tenant ORDER BY b.tenant LIMIT 1) x)
    SELECT array_agg(p_queue), array_agg(q.tenant) INTO v_queues, v_lanes
    FROM (SELECT * FROM q LIMIT c_lanes + 1) q;
    IF v_queues IS NULL THEN
      RETURN NEXT;
      RETURN;
    END IF;
    IF cardinality(v_queues) > c_lanes THEN
      v_lanes := ARRAY[NULL::text];
    END IF;
  END IF;
  LOOP
    v_chunk := greatest(least(c_chunk, c_rows - v_looked), 1);
    -- Each queue gives its share of the chunk.
    v_share := greatest(v_chunk / cardinality(v_queues), 1);
    IF v_few THEN
      v_share := v_chunk;
      SELECT array_agg(r.id), array_agg(r.tenant), array_agg(''::text) INTO v_ids, v_tenants, v_parts
      FROM (
        SELECT x.id, x.tenant FROM unnest(v_few_ids, v_few_tenants) AS x(id, tenant)
        WHERE (x.id, x.tenant) < (v_id, v_tenant)
        ORDER BY x.id DESC, x.tenant DESC LIMIT v_share) r;
    ELSIF p_state IN (0, 3) AND p_tenant IS NOT NULL THEN
      IF p_state = 0 THEN
        SELECT array_agg(r.id ORDER BY r.id DESC), array_agg(r.tenant ORDER BY r.id DESC),
          array_agg(r.queue ORDER BY r.id DESC) INTO v_ids, v_tenants, v_parts
        FROM unnest(v_queues) AS q(queue) CROSS JOIN LATERAL (
          SELECT x.id, x.tenant, x.queue FROM jobs.live x
          WHERE x.state = 0 AND x.tenant = p_tenant AND x.queue = q.queue
            AND x.id <= v_id AND (x.id < v_id OR x.tenant < v_tenant)
          ORDER BY x.id DESC LIMIT v_share) r;
      ELSE
        SELECT array_agg(r.id ORDER BY r.id DESC), array_agg(r.tenant ORDER BY r.id DESC),
          array_agg(r.queue ORDER BY r.id DESC) INTO v_ids, v_tenants, v_parts
        FROM unnest(v_queues) AS q(queue) CROSS JOIN LATERAL (
          SELECT x.id, x.tenant, x.queue FROM jobs.live x
          WHERE x.state = 3 AND x.tenant = p_tenant AND x.queue = q.queue
            AND x.id <= v_id AND (x.id < v_id OR x.tenant < v_tenant)
          ORDER BY x.id DESC LIMIT v_share) r;
      END IF;
    ELSIF p_state = 0 THEN
      SELECT array_agg(r.id ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.tenant ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.queue ORDER BY r.id DESC, r.tenant DESC) INTO v_ids, v_tenants, v_parts
      FROM unnest(v_queues) AS q(queue) CROSS JOIN LATERAL (
        SELECT x.id, x.tenant, x.queue FROM jobs.live x
        WHERE x.state = 0 AND x.queue = q.queue AND (x.id, x.tenant) < (v_id, v_tenant)
        ORDER BY x.id DESC, x.tenant DESC LIMIT v_share) r;
    ELSIF p_state = 3 THEN
      SELECT array_agg(r.id ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.tenant ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.queue ORDER BY r.id DESC, r.tenant DESC) INTO v_ids, v_tenants, v_parts
      FROM unnest(v_queues) AS q(queue) CROSS JOIN LATERAL (
        SELECT x.id, x.tenant, x.queue FROM jobs.live x
        WHERE x.state = 3 AND x.queue = q.queue AND (x.id, x.tenant) < (v_id, v_tenant)
        ORDER BY x.id DESC, x.tenant DESC LIMIT v_share) r;
    ELSIF p_state = 5 AND p_tenant IS NOT NULL THEN
      SELECT array_agg(r.id ORDER BY r.id DESC), array_agg(r.tenant ORDER BY r.id DESC),
        array_agg(r.queue ORDER BY r.id DESC) INTO v_ids, v_tenants, v_parts
      FROM unnest(v_queues) AS q(queue) CROSS JOIN LATERAL (
        SELECT x.id, x.tenant, x.queue FROM jobs.done x
        WHERE x.state = 5 AND NOT x.stub AND x.tenant = p_tenant AND x.queue = q.queue
          AND x.id <= v_id AND (x.id < v_id OR x.tenant < v_tenant)
        ORDER BY x.id DESC LIMIT v_share) r;
    ELSIF p_state = 5 THEN
      SELECT array_agg(r.id ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.tenant ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.queue ORDER BY r.id DESC, r.tenant DESC) INTO v_ids, v_tenants, v_parts
      FROM unnest(v_queues) AS q(queue) CROSS JOIN LATERAL (
        SELECT x.id, x.tenant, x.queue FROM jobs.done x
        WHERE x.state = 5 AND NOT x.stub AND x.queue = q.queue AND (x.id, x.tenant) < (v_id, v_tenant)
        ORDER BY x.id DESC, x.tenant DESC LIMIT v_share) r;
    ELSIF v_lanes[1] IS NOT NULL THEN
      SELECT array_agg(r.id ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.tenant ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.at ORDER BY r.id DESC, r.tenant DESC) INTO v_ids, v_tenants, v_parts
      FROM unnest(v_queues, v_lanes) WITH ORDINALITY AS q(queue, tenant, at) CROSS JOIN LATERAL (
        SELECT x.id, x.tenant, q.at::text FROM jobs.body x
        WHERE x.tenant = q.tenant AND x.queue = q.queue AND x.id <= v_id
          AND (x.id < v_id OR x.tenant < v_tenant)
        ORDER BY x.id DESC LIMIT v_share) r;
    ELSE
      v_share := v_chunk;
      SELECT array_agg(r.id ORDER BY r.id DESC, r.tenant DESC),
        array_agg(r.tenant ORDER BY r.id DESC, r.tenant DESC),
        array_agg(''::text) INTO v_ids, v_tenants, v_parts
      FROM (
        SELECT x.id, x.tenant FROM jobs.body x WHERE (x.id, x.tenant) < (v_id, v_tenant)
        ORDER BY x.id DESC, x.tenant DESC LIMIT v_share) r;
    END IF;
    v_count := coalesce(cardinality(v_ids), 0);
    -- What is older than the end of a full share waits: rows of that share may lie before it.
    SELECT f.id, f.tenant INTO v_end, v_end_tenant FROM (
      SELECT s.id, s.tenant, row_number() OVER (PARTITION BY s.part ORDER BY s.id DESC, s.tenant DESC) AS at
      FROM unnest(v_ids, v_tenants, v_parts) AS s(id, tenant, part)) f
    WHERE f.at >= v_share ORDER BY f.id DESC, f.tenant DESC LIMIT 1;
    v_last := NOT FOUND;
    IF NOT v_last THEN
      SELECT count(*) INTO v_count FROM unnest(v_ids, v_tenants) AS s(id, tenant)
      WHERE (s.id, s.tenant) >= (v_end, v_end_tenant);
      v_ids := v_ids[1:v_count];
      v_tenants := v_tenants[1:v_count];
    END IF;
    SELECT array_agg(
        d.stub IS NOT true AND coalesce(l.state, d.state) IS NOT NULL
        AND (p_state IS NULL OR coalesce(l.state, d.state) = p_state)
        AND (p_queue IS NULL OR b.queue = p_queue) AND (p_name IS NULL OR b.name = p_name)
        AND (p_id IS NULL OR b.id = p_id)
        AND (p_cause IS NULL OR coalesce(strpos((SELECT a.cause FROM jobs.attempt a
          WHERE a.id = b.id AND a.tenant = b.tenant AND a.cause IS NOT NULL
          ORDER BY a.fence DESC LIMIT 1), p_cause), 0) > 0) ORDER BY s.at)
    INTO v_match
    FROM unnest(v_ids, v_tenants) WITH ORDINALITY AS s(id, tenant, at)
    LEFT JOIN jobs.body b ON b.id = s.id AND b.tenant = s.tenant
    LEFT JOIN jobs.live l ON l.id = s.id AND l.tenant = s.tenant
    LEFT JOIN jobs.done d ON d.id = s.id AND d.tenant = s.tenant;
    FOR i IN 1..v_count LOOP
      IF v_match[i] THEN
        ids := ids || v_ids[i];
        tenants := tenants || v_tenants[i];
        IF cardinality(ids) = p_page THEN
          IF NOT v_last OR i < v_count THEN
            next_id := v_ids[i];
            next_tenant := v_tenants[i];
          END IF;
          RETURN NEXT;
          RETURN;
        END IF;
      END IF;
    END LOOP;
    v_looked := v_looked + greatest(v_count, 1);
    IF v_last THEN
      RETURN NEXT;
      RETURN;
    END IF;
    v_id := v_ids[v_count];
    v_tenant := v_tenants[v_count];
    IF v_looked >= c_rows OR clock_timestamp() - v_began >= interval '250 milliseconds' THEN
      next_id := v_id;
      next_tenant := v_tenant;
      complete := false;
      RETURN NEXT;
      RETURN;
    END IF;
  END LOOP;
END $$;

-- The ready jobs of a tenant, of a queue, or of all, where they are no more than p_most. A tenant's are
-- sought line by line, with a step for each name that others have work of, of which 20,000 are too many.
CREATE FUNCTION jobs.ready(p_tenant text, p_queue text, p_most int4)
RETURNS TABLE (ids uuid[], tenants text[], complete bool) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  c_steps CONSTANT int4 := 20000;
  v_queue_from text := coalesce(p_queue, '');
  v_queue_to text := coalesce(p_queue, '~');
BEGIN
  IF p_tenant IS NULL THEN
    RETURN QUERY
    SELECT array_agg(x.id), array_agg(x.tenant), count(*) <= p_most FROM (
      SELECT v.id, v.tenant FROM jobs.live v
      WHERE v.state = 1 AND v.queue >= v_queue_from AND v.queue <= v_queue_to
      ORDER BY v.queue, v.name, v.suspect LIMIT p_most + 1) x;
    RETURN;
  END IF;
  RETURN QUERY
  WITH RECURSIVE names AS (
    (SELECT v.queue, v.name, v.suspect FROM jobs.live v
      WHERE v.state = 1 AND v.queue >= v_queue_from AND v.queue <= v_queue_to
      ORDER BY v.queue, v.name, v.suspect LIMIT 1)
    UNION ALL
    SELECT x.* FROM names t CROSS JOIN LATERAL (
      SELECT v.queue, v.name, v.suspect FROM jobs.live v
      WHERE v.state = 1 AND v.queue <= v_queue_to
        AND (v.queue, v.name, v.suspect) > (t.queue, t.name, t.suspect)
      ORDER BY v.queue, v.name, v.suspect LIMIT 1) x
  ), walked AS MATERIALIZED (SELECT * FROM names LIMIT c_steps)
  SELECT array_agg(x.id), array_agg(p_tenant),
    count(*) <= p_most AND (SELECT count(*) FROM walked) < c_steps
  FROM (
    SELECT y.id FROM walked t CROSS JOIN LATERAL (
      SELECT v.id FROM jobs.live v
      WHERE v.state = 1 AND v.queue = t.queue AND v.name = t.name AND v.suspect = t.suspect
        AND v.tenant = p_tenant LIMIT p_most + 1) y
    LIMIT p_most + 1) x;
END $$;
