//! Pushing inside the caller's own transaction (P6).

use std::sync::Arc;

use jobs_core::{AuthorizedJob, Result, queue::Pushed, retention::Retention};
use sqlx::SqliteConnection;

use crate::{
    Sqlite,
    db::Db,
    error::Fault,
    op::enqueue,
    tx::{Places, Tx},
    wake::Wake,
};

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
    /// # Errors
    /// The store's; the transaction is then the caller's to roll back.
    pub async fn push_in(
        &self,
        conn: &mut SqliteConnection,
        jobs: &[AuthorizedJob],
    ) -> Result<PushedIn> {
        let wake = self.wake.clone();
        if jobs.is_empty() {
            return Ok(PushedIn { pushed: Vec::new(), wake, queues: Vec::new() });
        }
        let (pushed, queues) =
            push(conn, jobs).await.map_err(|fault| fault.into_error("push_in"))?;
        Ok(PushedIn { pushed, wake, queues })
    }
}

async fn push(
    conn: &mut SqliteConnection,
    jobs: &[AuthorizedJob],
) -> std::result::Result<(Vec<Pushed>, Vec<String>), Fault> {
    let mut places = Places::new();
    let db = Db { conn, cut: None };
    let mut tx = Tx::open(db, &mut places, Retention::default()).await?;
    let pushed = enqueue::run(&mut tx, &jobs.iter().collect::<Vec<_>>()).await?;
    let queues = tx.wake().await?.into_iter().map(|(queue, _)| queue).collect();
    Ok((pushed, queues))
}
