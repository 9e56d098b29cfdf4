//! What one reserve reads, asked of the server: buffers are exact where times are not.

use jobs_testkit::kit::{NAME, QUEUE};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use uuid::Uuid;

/// What a reserve looks at besides the line that it knows.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    Nothing = 0,
    OtherLines = 1,
    AllLines = 2,
}

/// The shared buffers that a reserve of up to `most` jobs touches which knows the line of `tenant` from
/// this place on. It is rolled back.
pub async fn of_reserve(
    conn: &mut PgConnection,
    schema: &str,
    (tenant, due, id): (&str, i64, Uuid),
    most: usize,
    look: Look,
) -> i64 {
    let look = look as i32;
    let sql = format!(
        "EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM \"{schema}\".reserve('{QUEUE}', ARRAY['{NAME}'], '{{}}', \
         {most}, {most}, 30000, (random() * 1e15)::int8, 'w', {look}, '', false, '', 500, {due}, '', false, \
         ARRAY['{NAME}'], ARRAY[false], ARRAY['{tenant}'], ARRAY[0::int2], ARRAY[{due}::int8], \
         ARRAY['{id}'::uuid])",
    );
    let mut tx = conn.begin().await.expect("the server answers");
    let plan = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut *tx).await.expect("a plan");
    tx.rollback().await.expect("the server answers");
    let lines = plan.iter().map(|row| row.get::<String, _>(0));
    let buffers = lines.into_iter().find(|line| line.trim_start().starts_with("Buffers:"));
    let buffers = buffers.expect("the buffers of all");
    let parts = buffers.split_whitespace();
    let counts = parts.filter_map(|part| part.strip_prefix("hit=").or(part.strip_prefix("read=")));
    counts.map(|count| count.parse::<i64>().expect("a number")).sum()
}
