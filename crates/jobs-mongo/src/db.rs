//! The handle's clients, and one command on one of them.
//!
//! A client of the mongodb crate is bound to the runtime that made it: its monitors and connections
//! are tasks there. So a handle makes one for each runtime that calls, and outlives runtimes.
//! Everything is a command of the server's: several statements in one round trip, each with its own
//! answer, is what the crate's own `bulk_write` has only from server 8.0 on.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jobs_core::{ErrorKind, Result};
use mongodb::{
    Client, Database,
    bson::{Document, RawDocumentBuf, doc, rawdoc},
};
use tokio::runtime::{Handle, Id};

use crate::{
    clock::Clock,
    error::{Fault, LATE},
    options::{Options, Source},
    row::{date, int, text},
    schema,
};

/// Clients kept, those called last: a web server may have a runtime for each core, and those of
/// runtimes that ended are no use.
const CLIENTS: usize = 64;
/// Between two attempts of a command while there is no primary: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The connections of one handle.
#[derive(Debug)]
pub(crate) struct Db {
    pub options: Arc<Options>,
    pub clock: Clock,
    clients: Mutex<Vec<(Id, Database)>>,
    /// The collections were there when this handle first looked.
    found: AtomicBool,
}

/// What a write answered.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How many documents its statements matched, inserted or removed.
    pub count: usize,
    /// The statements that met a unique index, by their places, and whether it is that of keys.
    pub duplicates: Vec<(usize, bool)>,
    /// It was sent more than once, so the count may be of less than it did.
    pub again: bool,
}

impl Db {
    pub fn new(options: Arc<Options>) -> Self {
        let clients = Mutex::default();
        Self { options, clock: Clock::default(), clients, found: AtomicBool::new(false) }
    }

    /// A collection's name.
    pub fn name(&self, collection: &str) -> String {
        format!("{}{collection}", self.options.prefix)
    }

    /// The database, on the calling runtime.
    pub fn database(&self) -> std::result::Result<Database, Fault> {
        let options = match &self.options.source {
            Source::Borrowed(database) => return Ok(database.clone()),
            Source::Own(options) => options,
        };
        let runtime = Handle::current().id();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = clients.iter().position(|(id, _)| *id == runtime) {
            // Nearly always the last one.
            clients[at..].rotate_left(1);
            return Ok(clients[clients.len() - 1].1.clone());
        }
        let mut options = (**options).clone();
        options.app_name.get_or_insert_with(|| "jobs".to_owned());
        // Commands are sent again here, for as long as the call may take.
        options.server_selection_timeout = Some(self.options.deadline);
        options.retry_reads = Some(false);
        let database = Client::with_options(options)?.database(&self.options.database);
        if clients.len() >= CLIENTS {
            clients.remove(0);
        }
        clients.push((runtime, database.clone()));
        Ok(database)
    }

    /// A method, within the deadline of one call.
    pub async fn within<T>(
        &self,
        operation: &'static str,
        method: impl Future<Output = std::result::Result<T, Fault>>,
    ) -> Result<T> {
        let method = async {
            self.find_collections().await?;
            method.await
        };
        self.alone(operation, method).await
    }

    /// The same, where there may be no collections yet.
    pub async fn alone<T>(
        &self,
        operation: &'static str,
        method: impl Future<Output = std::result::Result<T, Fault>>,
    ) -> Result<T> {
        let done = tokio::time::timeout(self.options.deadline, method).await;
        done.unwrap_or(Err(LATE)).map_err(|fault| fault.into_error(operation))
    }

    /// The server would make a missing collection at the first write, without its indexes.
    async fn find_collections(&self) -> std::result::Result<(), Fault> {
        if !self.found.load(Ordering::Relaxed) {
            schema::found(self).await?;
            self.found.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// One command; tried again while there is no primary or another write is in the way.
    pub async fn run(&self, command: Document) -> std::result::Result<Document, Fault> {
        let command = RawDocumentBuf::try_from(&command).map_err(mongodb::error::Error::from)?;
        self.run_raw(command).await
    }

    /// The same, of a command that is encoded already.
    pub async fn run_raw(&self, command: RawDocumentBuf) -> std::result::Result<Document, Fault> {
        let mut wait = AGAIN.0;
        loop {
            match self.once(&command).await {
                Err(fault) if fault.is_passing() => self.rest(&mut wait, &fault).await,
                answer => return answer,
            }
        }
    }

    async fn once(&self, command: &RawDocumentBuf) -> std::result::Result<Document, Fault> {
        let database = self.database()?;
        let reply = database.run_raw_command(command.clone()).await?;
        self.seen()?;
        Ok(reply)
    }

    /// All documents of a `find` or `aggregate`.
    pub async fn rows(&self, command: Document) -> std::result::Result<Vec<Document>, Fault> {
        let command = RawDocumentBuf::try_from(&command).map_err(mongodb::error::Error::from)?;
        let mut wait = AGAIN.0;
        loop {
            match self.rows_once(&command).await {
                Err(fault) if fault.is_passing() => self.rest(&mut wait, &fault).await,
                answer => return answer,
            }
        }
    }

    async fn rows_once(
        &self,
        command: &RawDocumentBuf,
    ) -> std::result::Result<Vec<Document>, Fault> {
        let database = self.database()?;
        let mut cursor = database.run_raw_cursor_command(command.clone()).await?;
        self.seen()?;
        let mut rows = Vec::new();
        while cursor.advance().await? {
            let row = Document::try_from(cursor.current());
            rows.push(row.map_err(|error| Fault::Corrupt(error.to_string()))?);
        }
        Ok(rows)
    }

    /// Before a command is sent again.
    async fn rest(&self, wait: &mut Duration, fault: &Fault) {
        tracing::debug!(?fault, "a command is sent again");
        self.clock.forget();
        tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        *wait = (2 * *wait).min(AGAIN.1);
    }

    /// A write by a command with `insert`, `update` or `delete` first.
    pub async fn write(&self, mut command: RawDocumentBuf) -> std::result::Result<Written, Fault> {
        use mongodb::bson::cstr;
        let timeout = i64::try_from(self.options.deadline.as_millis()).unwrap_or(i64::MAX);
        let concern = rawdoc! { "w": "majority", "j": true, "wtimeout": timeout };
        command.append(cstr!("writeConcern"), concern);
        let (mut wait, mut again) = (AGAIN.0, false);
        loop {
            match self.once(&command).await.and_then(|reply| written(&reply)) {
                Err(fault) if fault.is_passing() => self.rest(&mut wait, &fault).await,
                answer => return answer.map(|written| Written { again, ..written }),
            }
            again = true;
        }
    }

    /// Updates by these statements, each whatever became of the others.
    pub async fn update(
        &self,
        collection: &str,
        statements: Vec<Document>,
    ) -> std::result::Result<Written, Fault> {
        let collection = self.name(collection);
        let command = doc! { "update": collection, "updates": statements, "ordered": false };
        let command = RawDocumentBuf::try_from(&command).map_err(mongodb::error::Error::from)?;
        self.write(command).await
    }

    /// A write that is only a hint, or of no use after a failover: acknowledged by the primary alone.
    pub async fn hint(&self, command: Document) -> std::result::Result<Written, Fault> {
        let mut command = command;
        command.insert("writeConcern", doc! { "w": 1, "j": false });
        written(&self.run(command).await?)
    }

    /// Removes what matches.
    pub async fn delete(
        &self,
        collection: &str,
        filter: Document,
    ) -> std::result::Result<Written, Fault> {
        let deletes = vec![doc! { "q": filter, "limit": 0 }];
        let command = doc! { "delete": self.name(collection), "deletes": deletes };
        let command = RawDocumentBuf::try_from(&command).map_err(mongodb::error::Error::from)?;
        self.write(command).await
    }

    /// The server's time.
    pub async fn now(&self) -> std::result::Result<i64, Fault> {
        if let Some(now) = self.clock.now() {
            return Ok(now);
        }
        let reply = self.run(doc! { "hello": 1 }).await?;
        let now = date(&reply, "localTime");
        let now = now.ok_or_else(|| Fault::Corrupt("the server says no time".into()))?;
        self.clock.heard(now);
        Ok(now)
    }

    /// Counts a round trip, whose answer a cut connection loses.
    fn seen(&self) -> std::result::Result<(), Fault> {
        match &self.options.cut {
            Some(cut) if cut.now() => {
                Err(Fault::Broken(ErrorKind::Unavailable, "the connection was cut: try again"))
            }
            _ => Ok(()),
        }
    }
}

/// What a write command answered; an answer to one of its statements other than that a unique index
/// has the value already is a failure of all.
pub(crate) fn written(reply: &Document) -> std::result::Result<Written, Fault> {
    let count = int(reply, "n").and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    let mut written = Written { count, ..Written::default() };
    for error in reply.get_array("writeErrors").into_iter().flatten() {
        let Some(error) = error.as_document() else { continue };
        let code = int(error, "code").and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
        if code != crate::error::DUPLICATE {
            return Err(Fault::Answered(code, text(error, "errmsg").unwrap_or_default()));
        }
        let at = int(error, "index").and_then(|at| usize::try_from(at).ok()).unwrap_or_default();
        let key = error.get_document("keyPattern").is_ok_and(|key| key.contains_key("held"));
        written.duplicates.push((at, key));
    }
    if let Ok(concern) = reply.get_document("writeConcernError") {
        let code = int(concern, "code").and_then(|code| i32::try_from(code).ok());
        let said = text(concern, "errmsg").unwrap_or_default();
        return Err(Fault::Unacknowledged(code.unwrap_or_default(), said));
    }
    Ok(written)
}
