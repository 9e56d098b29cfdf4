//! Rows and jobs in one MongoDB database.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::TryStreamExt;
use jobs_core::{Admin, AuthorizedJob, Pushed, Worker};
use mongodb::{
    Client, Collection,
    bson::{Document, doc},
    options::ClientOptions,
};

use super::{Place, Store};
use crate::{AnyError, data::Tenant};

/// Where the URL names no database, as the jobs' driver does.
const DATABASE: &str = "jobs";

/// A handle on the database.
#[derive(Debug)]
pub struct Mongo {
    jobs: jobs_mongo::Mongo,
    client: Client,
    rows: Collection<Document>,
}

impl Mongo {
    /// For a URL `mongodb://host/database?replicaSet=name`.
    pub async fn open(url: &str) -> Result<Self, AnyError> {
        // No request waits for half a minute.
        let jobs = jobs_mongo::Options::new(url).await?.deadline(Duration::from_secs(10));
        let jobs = jobs_mongo::Mongo::open(jobs).await?;
        let options = ClientOptions::parse(url).await?;
        let database = options.default_database.clone().unwrap_or_else(|| DATABASE.to_owned());
        let client = Client::with_options(options)?;
        let rows = client.database(&database).collection("app_rows");
        Ok(Self { jobs, client, rows })
    }
}

#[async_trait]
impl Store for Mongo {
    fn jobs(&self) -> Arc<dyn Admin> {
        Arc::new(self.jobs.clone())
    }

    /// A row's place is its `_id`, whose index every collection has.
    async fn migrate(&self) -> Result<(), AnyError> {
        Ok(self.jobs.migrate().await?)
    }

    async fn put_and_push(
        &self,
        place: Place<'_>,
        row: &str,
        job: AuthorizedJob,
    ) -> Result<Pushed, AnyError> {
        let mut session = self.client.start_session().await?;
        session.start_transaction().await?;
        let (id, change) = (at(place), doc! { "$set": { "body": row } });
        let put = self.rows.update_one(id, change).upsert(true);
        put.session(&mut session).await?;
        let pushed = self.jobs.push_in(&mut session, &[job]).await?;
        if let [Pushed::Stored] = pushed.pushed[..] {
            session.commit_transaction().await?;
            return Ok(pushed.wake()[0]);
        }
        session.abort_transaction().await?;
        Ok(pushed.pushed[0])
    }

    async fn put(&self, place: Place<'_>, row: &str) -> Result<(), AnyError> {
        let change = doc! { "$set": { "body": row } };
        self.rows.update_one(at(place), change).upsert(true).await?;
        Ok(())
    }

    async fn get(&self, place: Place<'_>) -> Result<Option<String>, AnyError> {
        self.rows.find_one(at(place)).await?.as_ref().map(body).transpose()
    }

    async fn list(&self, tenant: &Tenant, kind: &str) -> Result<Vec<String>, AnyError> {
        // By the range of `_id`, whose fields come in this order.
        let from = doc! { "tenant": tenant.as_str(), "kind": kind, "id": "" };
        let to = doc! { "tenant": tenant.as_str(), "kind": kind, "id": {} };
        let rows = self.rows.find(doc! { "_id": { "$gte": from, "$lt": to } });
        let rows: Vec<Document> = rows.sort(doc! { "_id": 1 }).await?.try_collect().await?;
        rows.iter().map(body).collect()
    }

    fn relay(&self) -> Option<Worker> {
        None
    }
}

fn at(Place { tenant, kind, id }: Place<'_>) -> Document {
    doc! { "_id": { "tenant": tenant.as_str(), "kind": kind, "id": id } }
}

fn body(row: &Document) -> Result<String, AnyError> {
    Ok(row.get_str("body")?.to_owned())
}
