//! What must agree in the file, whoever has written what: one statement for each thing, which
//! returns the numbers of rows that do not. All are read at one moment.

use sqlx::{Row, SqliteConnection};

/// Rows told of one statement.
const TOLD: usize = 3;

/// What is wrong, and where that is so.
pub const INVARIANTS: &[(&str, &str)] = &[
    (
        "a job in line is there as its live row or its body says",
        "SELECT r.job FROM jobs_ready r LEFT JOIN jobs_body b ON b.job = r.job
         LEFT JOIN jobs_live l ON l.job = r.job LEFT JOIN jobs_done d ON d.job = r.job
         WHERE b.job IS NULL OR d.job IS NOT NULL OR CASE WHEN l.job IS NULL
           THEN (r.sublane, r.rank, r.run_at, r.id, r.keyed)
             <> (b.sublane, -b.priority, b.due, b.id, b.key_scope)
           ELSE l.state <> 1 OR (r.sublane, r.rank, r.run_at, r.id, r.keyed)
             <> (l.sublane, l.rank, l.run_at, l.id, l.keyed) END",
    ),
    (
        "a ready job is in line",
        "SELECT l.job FROM jobs_live l WHERE l.state = 1 AND NOT EXISTS (SELECT 1 FROM jobs_ready r
         WHERE r.sublane = l.sublane AND r.rank = l.rank AND r.run_at = l.run_at AND r.id = l.id
           AND r.job = l.job)",
    ),
    (
        "a job is live, finished, or in line for the first time: one of them",
        "SELECT b.job FROM jobs_body b LEFT JOIN jobs_live l ON l.job = b.job
         LEFT JOIN jobs_done d ON d.job = b.job
         WHERE (l.job IS NOT NULL) + (d.job IS NOT NULL) + (l.job IS NULL AND EXISTS (
           SELECT 1 FROM jobs_ready r WHERE r.sublane = b.sublane AND r.rank = -b.priority
             AND r.run_at = b.due AND r.id = b.id AND r.job = b.job)) <> 1",
    ),
    (
        "a live row is of its body",
        "SELECT l.job FROM jobs_live l LEFT JOIN jobs_body b ON b.job = l.job
         WHERE b.job IS NULL OR (l.id, l.queue, l.lane, l.sublane & ~1, l.rank, l.max_attempts)
           <> (b.id, b.queue_number, b.lane, b.sublane, -b.priority, b.max_attempts)",
    ),
    (
        "a finished row is of its body",
        "SELECT d.job FROM jobs_done d LEFT JOIN jobs_body b ON b.job = d.job
         WHERE b.job IS NULL OR d.state NOT IN (4, 5)
           OR (d.id, d.queue, d.lane, d.sublane & ~1, d.max_attempts)
           <> (b.id, b.queue_number, b.lane, b.sublane, b.max_attempts)",
    ),
    (
        "a running job has a holder and a lease, and no other job has",
        "SELECT job FROM jobs_live WHERE CASE WHEN state = 2
           THEN lease_until IS NULL OR started_at IS NULL OR renewed_at IS NULL OR worker IS NULL
             OR nonce = 0 OR fence < 1 OR outcome IS NOT NULL
           ELSE lease_until IS NOT NULL OR started_at IS NOT NULL OR renewed_at IS NOT NULL
             OR worker IS NOT NULL OR cancel <> 0 END",
    ),
    (
        "a job that may still be delivered has an attempt left, and a running one no more than all",
        "SELECT job FROM jobs_live WHERE attempt < 0 OR attempt > max_attempts
           OR (state IN (0, 1) AND attempt >= max_attempts) OR (state = 2 AND attempt < 1)",
    ),
    (
        "a key is held by the job that says so",
        "SELECT k.job FROM jobs_key k LEFT JOIN jobs_body b ON b.job = k.job
         LEFT JOIN jobs_live l ON l.job = k.job LEFT JOIN jobs_done d ON d.job = k.job
         WHERE b.job IS NULL OR (b.tenant, b.key) IS NOT (k.tenant, k.key) OR d.job IS NOT NULL
           OR coalesce(l.keyed, b.key_scope) = 0",
    ),
    (
        "a job that says so holds its key",
        "SELECT b.job FROM jobs_body b LEFT JOIN jobs_live l ON l.job = b.job
         LEFT JOIN jobs_done d ON d.job = b.job WHERE d.job IS NULL
           AND coalesce(l.keyed, b.key_scope) <> 0 AND NOT EXISTS (SELECT 1 FROM jobs_key k
             WHERE k.tenant = b.tenant AND k.key = b.key AND k.job = b.job)",
    ),
    (
        "a key is held for as long as its scope says",
        "SELECT l.job FROM jobs_live l JOIN jobs_body b ON b.job = l.job WHERE CASE b.key_scope
           WHEN 1 THEN l.keyed <> 1 WHEN 2 THEN l.keyed NOT IN (0, 2) OR (l.keyed = 2 AND l.fence > 0)
           ELSE l.keyed <> 0 END",
    ),
    (
        "a line with jobs is in the ring, or paused",
        "SELECT s.sublane FROM jobs_sublane s WHERE s.ring = 0
           AND EXISTS (SELECT 1 FROM jobs_ready r WHERE r.sublane = s.sublane)",
    ),
    (
        "a line is out of the ring as paused where its lane is, and nowhere else",
        "SELECT s.sublane FROM jobs_sublane s JOIN jobs_lane l ON l.lane = s.lane
         WHERE (s.ring = 2) <> (l.paused_until IS NOT NULL)",
    ),
    (
        "a line knows of its first scheduled job, or of an earlier instant",
        "SELECT s.sublane FROM jobs_sublane s WHERE coalesce(s.due, 9223372036854775807) > (
           SELECT min(l.run_at) FROM jobs_live l WHERE l.sublane = s.sublane AND l.state = 0)",
    ),
    (
        "a line has its lane's queue and a twin, and a body's is the first of them",
        "SELECT s.sublane FROM jobs_sublane s LEFT JOIN jobs_lane l ON l.lane = s.lane
         LEFT JOIN jobs_sublane t ON t.sublane = s.sublane + 1 - 2 * (s.sublane & 1)
         WHERE s.suspect <> (s.sublane & 1) OR (s.lane, s.name) IS NOT (t.lane, t.name)
           OR (s.lane > 0 AND s.queue IS NOT l.queue) OR (s.lane < 0 AND s.queue <> -s.lane)
         UNION ALL
         SELECT b.sublane FROM jobs_body b LEFT JOIN jobs_lane l ON l.lane = b.lane
         LEFT JOIN jobs_sublane s ON s.sublane = b.sublane
         WHERE (b.tenant, b.queue_number) IS NOT (l.tenant, l.queue)
           OR (b.lane, 0) IS NOT (s.lane, s.suspect)",
    ),
    (
        "a queue counts the done jobs that retention looks at",
        "SELECT q.queue FROM jobs_queue q WHERE q.done <> (SELECT count(*) FROM jobs_done d
           WHERE d.queue = q.queue AND d.state = 4 AND d.stub = 0)",
    ),
    (
        "an attempt on record is of a job, and before its claim",
        "SELECT a.job FROM jobs_attempt a LEFT JOIN jobs_live l ON l.job = a.job
         LEFT JOIN jobs_done d ON d.job = a.job
         WHERE a.fence > coalesce(l.fence - (l.state = 2), d.fence - (d.state = 4), -1)",
    ),
];

/// One sentence for each thing that is wrong.
///
/// # Errors
/// SQLite's.
pub async fn wrong(file: &mut SqliteConnection) -> sqlx::Result<Vec<String>> {
    let mut found = Vec::new();
    // In a transaction of the caller's, or one of its own.
    sqlx::raw_sql("SAVEPOINT look").execute(&mut *file).await?;
    for (what, rows) in INVARIANTS {
        let rows = sqlx::query(*rows).fetch_all(&mut *file).await?;
        if rows.is_empty() {
            continue;
        }
        let told: Vec<i64> = rows.iter().take(TOLD).map(|row| row.get(0)).collect();
        found.push(format!("not so: {what}; in {} rows, as of {told:?}", rows.len()));
    }
    sqlx::raw_sql("RELEASE look").execute(file).await?;
    Ok(found)
}
