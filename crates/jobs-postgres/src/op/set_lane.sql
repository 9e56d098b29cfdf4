-- Changes the settings of a lane, or with a null tenant of the queue. p_until is a duration, -1 for no
-- deadline, null to resume; p_pauses says whether the pause changes. A resume of what nobody knows makes
-- no row of it.
CREATE FUNCTION jobs.set_lane(p_queue text, p_tenant text, p_weight int4, p_pauses bool, p_until int8,
  p_verb text, p_by text, p_sets bool) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  v_until int8 := CASE WHEN p_until IS NULL THEN NULL WHEN p_until < 0 THEN 7289654399999
    ELSE least(7289654399999, v_now + p_until) END;
BEGIN
  IF p_tenant IS NULL THEN
    IF p_sets OR EXISTS (SELECT 1 FROM jobs.live v WHERE v.state = 1 AND v.queue = p_queue) THEN
      INSERT INTO jobs.queue (queue) VALUES (p_queue) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE jobs.queue q SET weight = coalesce(p_weight, q.weight),
      paused_until = CASE WHEN p_pauses THEN v_until ELSE q.paused_until END,
      changed = p_verb, changed_by = p_by, changed_at = v_now
    WHERE q.queue = p_queue;
  ELSE
    IF p_sets OR EXISTS (SELECT 1 FROM jobs.body b WHERE b.tenant = p_tenant AND b.queue = p_queue) THEN
      INSERT INTO jobs.lane (queue, tenant) VALUES (p_queue, p_tenant) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE jobs.lane a SET weight = coalesce(p_weight, a.weight),
      paused_until = CASE WHEN p_pauses THEN v_until ELSE a.paused_until END,
      changed = p_verb, changed_by = p_by, changed_at = v_now
    WHERE a.queue = p_queue AND a.tenant = p_tenant;
  END IF;
END $$;
