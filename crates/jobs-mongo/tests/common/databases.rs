//! A database for each namespace.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jobs_core::{
    Admin, AuthorizedJob, Error, ErrorKind, Result, async_trait, queue::Pushed,
    retention::Retention,
};
use jobs_mongo::{Mongo, Options, PushedIn};
use jobs_testkit::fixture::{Fixture, Transaction};
use mongodb::{
    Client, ClientSession, Database,
    bson::{Document, doc},
};

/// Every instant that is stored, beside those inside of arrays and documents.
const INSTANTS: &[(&str, &[&str])] = &[
    (
        "jobs",
        &[
            "run_at",
            "pushed_at",
            "started_at",
            "renewed_at",
            "lease_until",
            "ended_at",
            "gone",
            "stub",
            "verb_at",
        ],
    ),
    ("lanes", &["paused_until", "changed_at"]),
    ("taken", &["at"]),
    ("workers", &["since", "seen"]),
];

/// The store under test.
pub struct Databases {
    url: Result<String, String>,
    handles: Mutex<HashMap<String, Vec<Mongo>>>,
}

impl Databases {
    pub fn new(url: Result<String, String>) -> Self {
        Self { url, handles: Mutex::default() }
    }

    fn url(&self) -> &str {
        self.url.as_deref().expect("a server")
    }

    async fn options(&self, namespace: &str) -> Options {
        let options = Options::new(self.url()).await.expect("a URL");
        options.database(namespace).expect("a name")
    }

    async fn open(&self, namespace: &str, options: Options) -> Mongo {
        let store = Mongo::open(options).await.expect("the server answers");
        store.migrate().await.expect("migrates");
        let mut handles = self.handles.lock().expect("not poisoned");
        handles.entry(namespace.to_owned()).or_default().push(store.clone());
        store
    }

    async fn database(&self, namespace: &str) -> Database {
        Client::with_uri_str(self.url()).await.expect("a client").database(namespace)
    }
}

/// The update that moves these fields, where they are there.
fn moved(fields: &[&str], by: i64) -> Vec<Document> {
    let mut set = Document::new();
    for field in fields {
        set.insert(*field, earlier(&format!("${field}"), by));
    }
    vec![doc! { "$set": set }]
}

fn earlier(field: &str, by: i64) -> Document {
    let there = doc! { "$eq": [{ "$type": field }, "date"] };
    doc! { "$cond": [there, { "$subtract": [field, by] }, "$$REMOVE"] }
}

#[async_trait]
impl Fixture for Databases {
    fn name(&self) -> &'static str {
        "mongo"
    }

    fn unavailable(&self) -> Option<String> {
        self.url.as_ref().err().cloned()
    }

    async fn make(&self, namespace: &str, retention: Retention) -> Arc<dyn Admin> {
        let options = self.options(namespace).await.retention(retention);
        Arc::new(self.open(namespace, options).await)
    }

    async fn age(&self, namespace: &str, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("a sane time");
        let database = self.database(namespace).await;
        for (collection, fields) in INSTANTS {
            let collection = database.collection::<Document>(&format!("jobs_{collection}"));
            collection.update_many(doc! {}, moved(fields, by)).await.expect("ages");
        }
        // What is inside: attempts on record, and lanes' settings.
        let attempt = doc! { "$mergeObjects": ["$$this", {
            "started_at": { "$subtract": ["$$this.started_at", by] },
            "ended_at": { "$subtract": ["$$this.ended_at", by] },
        }] };
        let attempts = doc! { "$map": { "input": "$attempts", "in": attempt } };
        let jobs = database.collection::<Document>("jobs_jobs");
        let with = doc! { "attempts": { "$exists": true } };
        let set = vec![doc! { "$set": { "attempts": attempts } }];
        jobs.update_many(with, set).await.expect("ages");
        let lane = doc! { "$mergeObjects": ["$$this.v",
            { "$cond": [{ "$eq": [{ "$type": "$$this.v.paused_until" }, "date"] },
                { "paused_until": { "$subtract": ["$$this.v.paused_until", by] } }, {}] },
            { "$cond": [{ "$eq": [{ "$type": "$$this.v.changed_at" }, "date"] },
                { "changed_at": { "$subtract": ["$$this.v.changed_at", by] } }, {}] },
        ] };
        let lanes = doc! { "$arrayToObject": { "$map": {
            "input": { "$objectToArray": "$lanes" }, "in": { "k": "$$this.k", "v": lane },
        } } };
        let settings = database.collection::<Document>("jobs_lanes");
        let with = doc! { "lanes": { "$exists": true } };
        let set = vec![doc! { "$set": { "lanes": lanes } }];
        settings.update_many(with, set).await.expect("ages");
        // A minute's start stays one: counts are kept by whole minutes. What handles hold of them is
        // written first.
        let handles = {
            let handles = self.handles.lock().expect("not poisoned");
            handles.get(namespace).cloned().unwrap_or_default()
        };
        for handle in &handles {
            handle.flush().await;
        }
        let minutes = database.collection::<Document>("jobs_minutes");
        let whole = by / 60_000 * 60_000;
        minutes.update_many(doc! {}, moved(&["at"], whole)).await.expect("ages");
        handles.iter().for_each(Mongo::forget);
    }

    async fn make_cut(&self, namespace: &str, after: usize) -> Arc<dyn Admin> {
        let options = self.options(namespace).await;
        // Opening it is no part of what is cut.
        self.open(namespace, options.clone()).await;
        Arc::new(Mongo::open_lazily(options.cut_after(after)))
    }

    async fn begin(&self, namespace: &str) -> Option<Box<dyn Transaction>> {
        let handle = self.open(namespace, self.options(namespace).await).await;
        let client = self.database(namespace).await.client().clone();
        let mut session = client.start_session().await.expect("a session");
        session.start_transaction().await.expect("it begins");
        Some(Box::new(Callers { handle, session, pushed: Vec::new() }))
    }

    async fn remove(&self, namespace: &str) {
        self.handles.lock().expect("not poisoned").remove(namespace);
        self.database(namespace).await.drop().await.ok();
    }
}

/// A caller's own transaction.
struct Callers {
    handle: Mongo,
    session: ClientSession,
    pushed: Vec<PushedIn>,
}

#[async_trait]
impl Transaction for Callers {
    async fn push(&mut self, jobs: &[AuthorizedJob]) -> Result<Vec<Pushed>> {
        let pushed = self.handle.push_in(&mut self.session, jobs).await?;
        let answers = pushed.pushed.clone();
        self.pushed.push(pushed);
        Ok(answers)
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        let lost = |error| Error::with_source(ErrorKind::Busy, "commit", "not committed", error);
        self.session.commit_transaction().await.map_err(lost)?;
        for pushed in self.pushed {
            pushed.wake();
        }
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) {
        self.session.abort_transaction().await.expect("rolls back");
    }
}
