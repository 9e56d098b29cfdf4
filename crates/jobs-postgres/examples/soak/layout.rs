//! What must agree in the schema, whoever has written what: one statement for each thing, which
//! returns the ids of rows that do not. All are read at one moment.

use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

/// Rows told of one statement.
const TOLD: usize = 3;

/// What is wrong, and where that is so. States: 0 scheduled, 1 ready, 2 running, 3 parked, 4 done,
/// 5 cancelled.
pub const INVARIANTS: &[(&str, &str)] = &[
    (
        "a job is live or finished: one of them",
        "SELECT coalesce(b.id, l.id, d.id) FROM jobs.body b
         FULL JOIN jobs.live l ON l.id = b.id AND l.tenant = b.tenant
         FULL JOIN jobs.done d ON d.id = coalesce(b.id, l.id)
           AND d.tenant = coalesce(b.tenant, l.tenant)
         WHERE b.id IS NULL OR (l.id IS NULL) = (d.id IS NULL)",
    ),
    (
        "a live row is of its body",
        "SELECT l.id FROM jobs.live l JOIN jobs.body b ON b.id = l.id AND b.tenant = l.tenant
         WHERE l.state NOT IN (0, 1, 2, 3) OR (l.queue, l.name, l.rank, l.max_attempts)
           <> (b.queue, b.name, -b.priority, b.max_attempts)",
    ),
    (
        "a finished row is of its body",
        "SELECT d.id FROM jobs.done d JOIN jobs.body b ON b.id = d.id AND b.tenant = d.tenant
         WHERE d.state NOT IN (4, 5) OR d.queue <> b.queue",
    ),
    (
        "a running job has a holder and a lease, and no other job has",
        "SELECT id FROM jobs.live WHERE CASE WHEN state = 2
           THEN lease_until IS NULL OR started_at IS NULL OR renewed_at IS NULL OR worker IS NULL
             OR nonce = 0 OR fence < 1 OR outcome IS NOT NULL
           ELSE lease_until IS NOT NULL OR started_at IS NOT NULL OR renewed_at IS NOT NULL
             OR worker IS NOT NULL OR cancel END",
    ),
    (
        "the reserve that took a running job can be asked again",
        "SELECT l.id FROM jobs.live l WHERE l.state = 2 AND NOT EXISTS (SELECT 1 FROM jobs.taken t
           WHERE t.nonce = l.nonce AND l.id = ANY (t.ids))",
    ),
    (
        "a job that may still be delivered has an attempt left, and a running one no more than all",
        "SELECT id FROM jobs.live WHERE attempt < 0 OR attempt > max_attempts
           OR (state IN (0, 1) AND attempt >= max_attempts) OR (state = 2 AND attempt < 1)",
    ),
    (
        "a key is held by the job that says so",
        "SELECT k.id FROM jobs.key k LEFT JOIN jobs.body b ON b.id = k.id AND b.tenant = k.tenant
         LEFT JOIN jobs.live l ON l.id = k.id AND l.tenant = k.tenant
         WHERE b.key IS DISTINCT FROM k.key OR coalesce(l.keyed, 0) = 0",
    ),
    (
        "a job that says so holds its key",
        "SELECT l.id FROM jobs.live l JOIN jobs.body b ON b.id = l.id AND b.tenant = l.tenant
         WHERE l.keyed <> 0 AND NOT EXISTS (SELECT 1 FROM jobs.key k
           WHERE k.tenant = b.tenant AND k.key = b.key AND k.id = b.id)",
    ),
    (
        "a key is held for as long as its scope says",
        "SELECT l.id FROM jobs.live l JOIN jobs.body b ON b.id = l.id AND b.tenant = l.tenant
         WHERE CASE b.key_scope WHEN 1 THEN l.keyed <> 1
           WHEN 2 THEN l.keyed NOT IN (0, 2) OR (l.keyed = 2 AND l.fence > 0)
           ELSE l.keyed <> 0 END",
    ),
    (
        "an attempt on record is of a job, and before its claim",
        "SELECT a.id FROM jobs.attempt a
         LEFT JOIN jobs.live l ON l.id = a.id AND l.tenant = a.tenant
         LEFT JOIN jobs.done d ON d.id = a.id AND d.tenant = a.tenant
         WHERE a.fence > coalesce(l.fence - (l.state = 2)::int, d.fence - (d.state = 4)::int, -1)",
    ),
];

/// One sentence for each thing that is wrong at one moment.
///
/// # Errors
/// The server's.
pub async fn wrong(conn: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    (&mut *conn).execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let found = look(conn).await?;
    (&mut *conn).execute("COMMIT").await?;
    Ok(found)
}

/// The same, in the caller's transaction.
///
/// # Errors
/// The server's.
pub async fn look(conn: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    let mut found = Vec::new();
    for (what, rows) in INVARIANTS {
        let rows = format!("SELECT id::text FROM ({rows}) AS x(id)");
        let rows = sqlx::query(AssertSqlSafe(rows)).fetch_all(&mut *conn).await?;
        if rows.is_empty() {
            continue;
        }
        let told: Vec<String> = rows.iter().take(TOLD).map(|row| row.get(0)).collect();
        found.push(format!("{what}: not so for {} rows, such as {}", rows.len(), told.join(", ")));
    }
    Ok(found)
}
