//! Pushing inside the caller's own transaction (P6).

use std::sync::Arc;

use jobs_core::{AuthorizedJob, Result, queue::Pushed, retention::Retention};
use sqlx::SqliteConnection;

use crate::{Sqlite, db::Db, error::Fault, op::enqueue, places::Places, tx::Tx, wake::Wake};

/// What was pushed inside a transaction, and the wake-up for after its commit.
#[derive(Debug)]
#[must_use = "fire it after the commit; without it a worker finds the jobs when it next looks"]
pub struct PushedIn {
    /// One answer per job, in order.
    pub pushed: Vec<Pushed>,
    wake: Arc<Wake>,
    queues: Vec<String>,
}

impl PushedIn {
    /// Wakes idle workers. Call it once the transaction is committed.
    pub fn wake(self) -> Vec<Pushed> {
        for queue in &self.queues {
            self.wake.ring(queue);
        }
        self.pushed
    }
}

impl Sqlite {
    /// Pushes on the caller's connection, inside the caller's transaction, and uses nothing else:
    /// the commit publishes, a rollback leaves nothing. The connection must be to this handle's
    /// file.
    ///
    /// Begin the transaction with `BEGIN IMMEDIATE` (sqlx: `begin_with`). A plain `BEGIN` that
    /// first reads and then writes fails at once with `Busy` when anybody wrote in between, and no
    /// timeout helps; retry the whole transaction then. While it is open no other connection
    /// writes, workers included: keep it short.
    ///
    /// # Cancel safety
    /// Not cancel safe: once its future is dropped half way, roll the transaction back. If it is
    /// committed all the same, a job may be stored half, in no state; pushing its id again stores
    /// it whole.
    ///
    /// # Errors
    /// The store's. Nothing of this call is left in the transaction then, and whether to commit
    /// the rest of it is the caller's choice.
    pub async fn push_in(
        &self,
        conn: &mut SqliteConnection,
        jobs: &[AuthorizedJob],
    ) -> Result<PushedIn> {
        let wake = self.wake.clone();
        if jobs.is_empty() {
            return Ok(PushedIn { pushed: Vec::new(), wake, queues: Vec::new() });
        }
        let (pushed, queues) = push(conn, jobs, self.clock.now())
            .await
            .map_err(|fault| fault.into_error("push_in"))?;
        Ok(PushedIn { pushed, wake, queues })
    }
}

/// Inside a savepoint, so that a failure leaves nothing of it.
async fn push(
    conn: &mut SqliteConnection,
    jobs: &[AuthorizedJob],
    now: i64,
) -> std::result::Result<(Vec<Pushed>, Vec<String>), Fault> {
    sqlx::query("SAVEPOINT jobs_push_in").execute(&mut *conn).await?;
    let pushed = inside(conn, jobs, now).await;
    if pushed.is_err() {
        // Where SQLite rolled the whole transaction back, there is no savepoint any more.
        sqlx::query("ROLLBACK TO jobs_push_in").execute(&mut *conn).await.ok();
    }
    match (sqlx::query("RELEASE jobs_push_in").execute(&mut *conn).await, pushed) {
        (Err(error), Ok(_)) => Err(error.into()),
        (_, pushed) => pushed,
    }
}

async fn inside(
    conn: &mut SqliteConnection,
    jobs: &[AuthorizedJob],
    now: i64,
) -> std::result::Result<(Vec<Pushed>, Vec<String>), Fault> {
    let mut places = Places::default();
    let mut tx = Tx::open(Db::callers(conn), &mut places, Retention::default(), now).await?;
    let pushed = enqueue::run(&mut tx, &jobs.iter().collect::<Vec<_>>()).await?;
    let queues = tx.wake().await?.into_iter().map(|(queue, _)| queue).collect();
    Ok((pushed, queues))
}
