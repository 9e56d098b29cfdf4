//! What the application knows, by whom it may be reached: every way to a tenant's rows takes a Grant,
//! and none a tenant's name.

use std::sync::Arc;

use jobs_core::{Admin, Forbidden, Grant, Job, JobId, Pushed, Refusal, Scope, authorized};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    AnyError,
    policy::{IMPORT, READ, REPORT, SEND},
    store::{Place, Store},
};

/// Whose rows: made of a Grant, and of nothing else.
#[derive(Clone, Debug)]
pub struct Tenant(String);

impl Tenant {
    /// The Grant's, where it is for one of these actions.
    fn of(grant: &Grant, actions: &[&str]) -> Result<Self, DataError> {
        if !actions.contains(&grant.action()) {
            grant.check(actions[0])?;
        }
        match grant.scope() {
            Scope::Tenant(tenant) => Ok(Self(tenant.clone())),
            Scope::Operator => Err(DataError::NoTenant),
        }
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An invoice. It has the id of the job that it came with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Invoice {
    /// Which of its tenant's.
    pub id: JobId,
    /// Whom it is for.
    pub customer: String,
    /// How much.
    pub cents: u64,
    /// As in `2026-11`.
    pub month: String,
    /// On whose word it was mailed, if it was.
    pub sent_for: Option<String>,
}

/// A month, added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// As in `2026-11`.
    pub month: String,
    /// How many.
    pub invoices: u64,
    /// How many of them were mailed.
    pub sent: u64,
    /// How much.
    pub cents: u64,
}

/// The way to rows and jobs. Clones share it.
#[derive(Clone)]
pub struct Data(Arc<dyn Store>);

const INVOICE: &str = "invoice";
const UPLOAD: &str = "upload";
const MONTH: &str = "report";

impl Data {
    /// In this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    /// The jobs, each verb of which takes a Grant by itself.
    pub fn jobs(&self) -> Arc<dyn Admin> {
        self.0.jobs()
    }

    /// Stores an invoice and pushes its job: both or neither.
    ///
    /// # Errors
    /// [`DataError`]; `Refused` where the job says what the Grant does not, before any I/O.
    pub async fn issue(
        &self,
        grant: &Grant,
        invoice: &Invoice,
        job: Job,
    ) -> Result<Pushed, DataError> {
        let (tenant, job) = (Tenant::of(grant, &[SEND])?, authorized(grant, job)?);
        let (id, row) = (invoice.id.to_string(), write(invoice)?);
        let place = Place { tenant: &tenant, kind: INVOICE, id: &id };
        Ok(self.0.put_and_push(place, &row, job).await?)
    }

    /// Stores a file, by its job's id, and pushes the job: both or neither.
    ///
    /// # Errors
    /// As [`issue`](Self::issue).
    pub async fn upload(&self, grant: &Grant, file: &str, job: Job) -> Result<Pushed, DataError> {
        let (tenant, job) = (Tenant::of(grant, &[IMPORT])?, authorized(grant, job)?);
        let (id, row) = (job.id.to_string(), write(&file)?);
        let place = Place { tenant: &tenant, kind: UPLOAD, id: &id };
        Ok(self.0.put_and_push(place, &row, job).await?)
    }

    /// An uploaded file.
    ///
    /// # Errors
    /// [`DataError`].
    pub async fn uploaded(&self, grant: &Grant, id: JobId) -> Result<Option<String>, DataError> {
        let tenant = Tenant::of(grant, &[IMPORT])?;
        self.read(Place { tenant: &tenant, kind: UPLOAD, id: &id.to_string() }).await
    }

    /// Stores an invoice that came by a file. Storing it again changes nothing.
    ///
    /// # Errors
    /// [`DataError`].
    pub async fn add(&self, grant: &Grant, invoice: &Invoice) -> Result<(), DataError> {
        let tenant = Tenant::of(grant, &[IMPORT])?;
        self.write(&tenant, INVOICE, &invoice.id.to_string(), invoice).await
    }

    /// An invoice.
    ///
    /// # Errors
    /// [`DataError`].
    pub async fn invoice(&self, grant: &Grant, id: JobId) -> Result<Option<Invoice>, DataError> {
        let tenant = Tenant::of(grant, &[READ, SEND])?;
        self.read(Place { tenant: &tenant, kind: INVOICE, id: &id.to_string() }).await
    }

    /// It was mailed, on the word of whom the Grant is of.
    ///
    /// # Errors
    /// [`DataError`].
    pub async fn mark_sent(&self, grant: &Grant, invoice: Invoice) -> Result<(), DataError> {
        let tenant = Tenant::of(grant, &[SEND])?;
        let sent_for = Some(grant.authorized_by().to_owned());
        let (id, sent) = (invoice.id.to_string(), Invoice { sent_for, ..invoice });
        self.write(&tenant, INVOICE, &id, &sent).await
    }

    /// Adds up a month, and keeps that.
    ///
    /// # Errors
    /// [`DataError`].
    pub async fn add_up(&self, grant: &Grant, month: &str) -> Result<Report, DataError> {
        let tenant = Tenant::of(grant, &[REPORT])?;
        let mut report = Report { month: month.to_owned(), ..Report::default() };
        for row in self.0.list(&tenant, INVOICE).await? {
            let invoice: Invoice = read(&row)?;
            if invoice.month == month {
                report.invoices += 1;
                report.sent += u64::from(invoice.sent_for.is_some());
                report.cents = report.cents.saturating_add(invoice.cents);
            }
        }
        self.write(&tenant, MONTH, month, &report).await?;
        Ok(report)
    }

    /// A month that was added up.
    ///
    /// # Errors
    /// [`DataError`].
    pub async fn report(&self, grant: &Grant, month: &str) -> Result<Option<Report>, DataError> {
        let tenant = Tenant::of(grant, &[READ, REPORT])?;
        self.read(Place { tenant: &tenant, kind: MONTH, id: month }).await
    }

    /// All invoices.
    ///
    /// # Errors
    /// [`DataError`].
    pub async fn invoices(&self, grant: &Grant) -> Result<Vec<Invoice>, DataError> {
        let tenant = Tenant::of(grant, &[READ])?;
        self.0.list(&tenant, INVOICE).await?.iter().map(|row| read(row)).collect()
    }

    async fn write<T: Serialize + Sync>(
        &self,
        tenant: &Tenant,
        kind: &'static str,
        id: &str,
        row: &T,
    ) -> Result<(), DataError> {
        Ok(self.0.put(Place { tenant, kind, id }, &write(row)?).await?)
    }

    async fn read<T: DeserializeOwned>(&self, place: Place<'_>) -> Result<Option<T>, DataError> {
        self.0.get(place).await?.map(|row| read(&row)).transpose()
    }
}

fn write<T: Serialize>(row: &T) -> Result<String, DataError> {
    serde_json::to_string(row).map_err(DataError::Row)
}

fn read<T: DeserializeOwned>(row: &str) -> Result<T, DataError> {
    serde_json::from_str(row).map_err(DataError::Row)
}

/// Why data was not reached.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The Grant is for another action.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// It is an operator's.
    #[error("an operator's Grant reaches no tenant's rows: authorize the action in one tenant")]
    NoTenant,
    /// The Grant does not cover the job.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A row is no JSON, or of another shape.
    #[error("a row cannot be read or written: {0}")]
    Row(#[source] serde_json::Error),
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] AnyError),
}
