//! A handle whose first call is held up in the server by a lock, and its backend terminated there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jobs_core::{
    Admin, AuthorizedJob, Claim, JobRef, Permit, Queue, Result, Settled, Settlement,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Retried, Tuned},
    async_trait,
    permit::{Cancel, Delete, Read, Retry, Tune},
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    view::{Check, Counts, JobRecord, Lanes, List, Page, WorkerView},
    wake::Watch,
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::{sleep, timeout};

/// Every verb needs one of them.
const TABLES: [&str; 6] = ["body", "live", "queue", "lane", "worker", "migration"];
/// No call takes longer to get to its lock.
const PATIENCE: Duration = Duration::from_secs(20);

/// The handle.
#[derive(Debug)]
pub struct Terminated {
    store: Arc<dyn Admin>,
    url: String,
    schema: String,
    armed: AtomicBool,
}

impl Terminated {
    /// Its `call`-th call ends so. All are one statement: only the first is a case.
    pub fn new(store: Arc<dyn Admin>, url: &str, schema: &str, call: usize) -> Self {
        let (url, schema) = (url.to_owned(), schema.to_owned());
        Self { store, url, schema, armed: AtomicBool::new(call == 1) }
    }

    async fn during<T>(&self, call: impl Future<Output = T>) -> T {
        if !self.armed.swap(false, Ordering::Relaxed) {
            return call.await;
        }
        let mut conn = PgConnection::connect(&self.url).await.expect("the server answers");
        let tables = TABLES.map(|table| format!("{}.{table}", self.schema)).join(", ");
        let lock = format!("BEGIN; LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE");
        (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.expect("it locks");
        let terminate = async {
            while self.terminate(&mut conn).await == 0 {
                sleep(Duration::from_millis(2)).await;
            }
        };
        // Held up until it is told: it has no other way to end.
        let both = async { tokio::join!(call, terminate) };
        let (answer, ()) = timeout(PATIENCE, both).await.expect("it waits for the lock, and hears");
        conn.close().await.ok();
        answer
    }

    /// Ends the backends that wait for a lock with a statement on this schema.
    async fn terminate(&self, conn: &mut PgConnection) -> u64 {
        let which = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0 AND pid <> pg_backend_pid()";
        // Within a transaction the view is of one moment.
        (&mut *conn).execute("SELECT pg_stat_clear_snapshot()").await.expect("it answers");
        let ended = sqlx::query(which).bind(&self.schema).execute(conn).await;
        ended.expect("the server answers").rows_affected()
    }
}

#[async_trait]
impl Queue for Terminated {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        self.during(self.store.enqueue(jobs)).await
    }
    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        self.during(self.store.reserve(request)).await
    }
    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        self.during(self.store.renew(lease, claims)).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.during(self.store.settle(settlements)).await
    }
    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        self.during(self.store.settle_and_reserve(settlements, request)).await
    }
    fn settles_apart(&self) -> bool {
        self.store.settles_apart()
    }
    async fn sweep(&self) -> Result<Swept> {
        self.during(self.store.sweep()).await
    }
    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        self.store.watch(queues).await
    }
    async fn announce(&self, worker: &Worker) -> Result<()> {
        self.during(self.store.announce(worker)).await
    }
    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        self.store.open_own().await
    }
}

#[async_trait]
impl Admin for Terminated {
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>> {
        self.during(self.store.get(permit, job)).await
    }
    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page> {
        self.during(self.store.list(permit, list)).await
    }
    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
        self.during(self.store.counts(permit, lanes)).await
    }
    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>> {
        self.during(self.store.retry(permit, jobs)).await
    }
    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        self.during(self.store.cancel(permit, jobs)).await
    }
    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        self.during(self.store.delete(permit, jobs)).await
    }
    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        change: LaneChange,
    ) -> Result<Tuned> {
        self.during(self.store.set_lane(permit, lane, change)).await
    }
    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
        self.during(self.store.workers(permit)).await
    }
    async fn check(&self, permit: &Permit<Read>) -> Result<Check> {
        self.during(self.store.check(permit)).await
    }
}
