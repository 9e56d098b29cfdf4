//! The jobs: what is stored of them, and what they are called for good.

use std::time::Duration;

use jobs_core::{JobId, JobType, Timeout};
use serde::{Deserialize, Serialize};

/// Mails an invoice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendInvoice {
    /// Which of its tenant's.
    pub invoice: JobId,
}

impl JobType for SendInvoice {
    const NAME: &'static str = "invoice.send";
    const QUEUE: &'static str = "mail";
    const TIMEOUT: Timeout = Timeout::After(Duration::from_secs(60));
}

/// Adds up what a tenant invoiced in a month.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildReport {
    /// As in `2026-11`.
    pub month: String,
}

impl JobType for BuildReport {
    const NAME: &'static str = "report.build";
}

/// Pushes one job for each line of an uploaded file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportFile {
    /// The upload: a file is too large for a payload, so its id is pushed.
    pub upload: JobId,
}

impl JobType for ImportFile {
    const NAME: &'static str = "import.file";
    const QUEUE: &'static str = "import";
}

/// Adds the invoice of one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportLine {
    /// Whom it is for.
    pub customer: String,
    /// How much.
    pub cents: u64,
    /// As in `2026-11`.
    pub month: String,
}

impl JobType for ImportLine {
    const NAME: &'static str = "import.line";
    const QUEUE: &'static str = "import";
}
