//! The application without a server: what its requests push, by whom and for which tenant; its
//! handlers run inline; its queues drained. The jobs are in the testkit's store, the rows beside it.

mod common;

use axum::http::StatusCode;
use common::{Memory, ask, granted};
use invoices::{
    data::{DataError, Invoice},
    jobs::{BuildReport, ImportFile, ImportLine, SendInvoice},
    mailer::Mailer,
    policy::{IMPORT, READ, REPORT, SEND},
    worker::{build_report, send_invoice, worker},
};
use jobs_core::{
    Admin, AdminExt, Context, Forbidden, Job, JobId, JobType, Pushed, QueueExt, State,
};
use serde_json::{Value, json};

const DRAFT: &str = r#"{"customer":"Hooli","cents":500,"month":"2026-11"}"#;
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn a_request_pushes_under_the_grant_of_its_user() {
    let memory = Memory::default();
    let (status, body) = ask(&memory, "ada", "/tenants/acme/invoices", DRAFT).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    let pushed = memory.app.pushed::<SendInvoice>().await;
    assert_eq!(pushed.len(), 1);
    let job = &pushed[0].job;
    let authority = [&job.tenant, &job.action, &job.authorized_by];
    assert_eq!(authority, ["acme", SEND, "ada"]);
    assert_eq!(pushed[0].value.invoice, job.id, "the invoice is called as its job is");
    assert_eq!(job.queue, SendInvoice::QUEUE);
    assert_eq!(job.metadata["traceparent"], PARENT, "the request's");

    let invoice = memory.data().invoice(&granted("ada", READ, "acme").await, job.id).await;
    assert_eq!(invoice.expect("it answers").map(|invoice| invoice.cents), Some(500));
}

#[tokio::test]
async fn a_body_that_says_another_authority_stores_nothing() {
    let memory = Memory::default();
    for job in [
        json!({ "tenant": "globex" }),
        json!({ "action": REPORT }),
        json!({ "authorized_by": "eve" }),
    ] {
        let mut draft: Value = serde_json::from_str(DRAFT).expect("JSON");
        draft["job"] = job;
        let (status, body) =
            ask(&memory, "ada", "/tenants/acme/invoices", &draft.to_string()).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
        assert!(body.contains("its Grant says"), "{body}");
    }
    let (status, _) = ask(&memory, "eve", "/tenants/acme/invoices", DRAFT).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(memory.app.pushed::<SendInvoice>().await.is_empty());
    assert!(memory.is_empty());
}

#[tokio::test]
async fn a_month_asked_for_twice_is_built_once() {
    let memory = Memory::default();
    let month = r#"{"month":"2026-11"}"#;
    let (status, first) = ask(&memory, "ada", "/tenants/acme/reports", month).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let (status, again) = ask(&memory, "ada", "/tenants/acme/reports", month).await;
    assert_eq!((status, again), (StatusCode::OK, first), "the one that waits");
    let (status, _) = ask(&memory, "eve", "/tenants/globex/reports", month).await;
    assert_eq!(status, StatusCode::ACCEPTED, "keys are a tenant's own");
    assert_eq!(memory.app.pushed::<BuildReport>().await.len(), 2);
    let (status, body) = ask(&memory, "ada", "/tenants/acme/reports", r#"{"month":"May"}"#).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(body.contains("is no month: write 2026-11"), "{body}");
}

#[tokio::test]
async fn a_file_fans_out_and_a_repeated_run_adds_nothing() {
    let memory = Memory::default();
    let file = "customer,cents,month\n\"Pied, Piper\",1,2026-11\nHooli,2,2026-11\n";
    let (status, body) = ask(&memory, "ada", "/tenants/acme/imports", file).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    let uploaded = memory.app.pushed::<ImportFile>().await;
    let worker = || worker(memory.data(), Mailer::default()).only_queues([("import", 1)]);
    let ended = memory.app.drain(worker()).await;
    assert_eq!(ended.settled, 3, "the file and its lines");
    let lines = memory.app.pushed::<ImportLine>().await;
    let customers: Vec<_> = lines.iter().map(|line| line.value.customer.as_str()).collect();
    assert_eq!(customers, ["Pied, Piper", "Hooli"]);
    for line in &lines {
        assert_eq!(line.state, State::Done);
        assert_eq!([&*line.job.tenant, &line.job.authorized_by], ["acme", "ada"], "the uploader's");
        assert_eq!(line.job.metadata["traceparent"], PARENT, "the request's, passed on");
    }
    // The same upload again, as when its worker was killed after the pushes.
    let (store, job) = (memory.app.store(), uploaded[0].job.clone());
    let permit = granted("ada", "jobs.delete", "acme").await.permit().expect("for that action");
    assert!(store.delete(&permit, &[job.job_ref()]).await.is_ok());
    let pushed = store.push(&granted("ada", IMPORT, "acme").await, job).await;
    assert_eq!(pushed.expect("it answers"), Pushed::Stored);
    let ended = memory.app.drain(worker()).await;
    assert_eq!(ended.settled, 1, "the file");
    assert_eq!(memory.app.pushed::<ImportLine>().await.len(), 2);
    let read = granted("ada", READ, "acme").await;
    assert_eq!(memory.data().invoices(&read).await.expect("it answers").len(), 2);
}

#[tokio::test]
async fn a_handler_reaches_its_tenants_rows_and_no_others() {
    let memory = Memory::default();
    let (_, body) = ask(&memory, "eve", "/tenants/globex/invoices", DRAFT).await;
    let theirs: Value = serde_json::from_str(&body).expect("JSON");
    let invoice: JobId = theirs["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    // Acme's job names globex's invoice: its Grant finds none, and no later run will.
    let data = memory.data();
    let handler = move |ctx: Context, job: SendInvoice| {
        let data = data.clone();
        async move { send_invoice(&data, &Mailer::default(), &ctx, job).await }
    };
    let grant = granted("ada", SEND, "acme").await;
    let ended = memory.app.run(&grant, SendInvoice { invoice }, handler).await;
    assert_eq!(ended.state, State::Parked);
    let cause = ended.last_cause.expect("it failed").to_string();
    assert_eq!(cause, format!("acme has no invoice {invoice}"));

    // A job pushed under another action does not get this one's authority by its name.
    let data = memory.data();
    let handler = move |ctx: Context, job: BuildReport| {
        let data = data.clone();
        async move { build_report(&data, &ctx, job).await }
    };
    let ended = memory.app.run(&grant, BuildReport { month: "2026-11".into() }, handler).await;
    let cause = ended.last_cause.expect("it failed").to_string();
    assert_eq!(
        cause,
        "this Grant is for invoice.send, not for report.build: authorize report.build"
    );
}

#[tokio::test]
async fn what_a_grant_is_not_for_is_out_of_its_reach() {
    let data = Memory::default().data();
    let import = granted("ada", IMPORT, "acme").await;
    let id = JobId::new();
    let (customer, month) = ("Hooli".to_owned(), "2026-11".to_owned());
    let invoice = Invoice { id, customer, cents: 1, month, sent_for: None };
    data.add(&import, &invoice).await.expect("it is for that");
    let refused = data.mark_sent(&import, invoice).await;
    let forbidden = matches!(
        refused,
        Err(DataError::Forbidden(Forbidden::WrongAction { ref needed, .. })) if needed == SEND
    );
    assert!(forbidden, "{refused:?}");
    assert!(matches!(data.invoices(&import).await, Err(DataError::Forbidden(_))));
}

#[tokio::test]
async fn a_payload_that_does_not_decode_says_which_type_and_field() {
    let memory = Memory::default();
    let grant = granted("ada", SEND, "acme").await;
    let old = Job::new(&grant, SendInvoice::NAME, &json!({ "number": 7 })).expect("JSON");
    let old = old.on(SendInvoice::QUEUE).max_attempts(1);
    let pushed = memory.app.store().push(&grant, old).await;
    assert!(pushed.is_ok());
    let worker = worker(memory.data(), Mailer::default()).only_queues([(SendInvoice::QUEUE, 1)]);
    let ended = memory.app.drain(worker).await;
    assert_eq!(ended.settled, 1);
    let read = granted("ada", "jobs.read", "acme").await;
    let parked = memory.app.store().parked(&read, SendInvoice::QUEUE, 1).await;
    let cause = parked.expect("it answers")[0].last_cause.clone().expect("it failed").to_string();
    assert!(cause.starts_with("the payload is no invoices::jobs::SendInvoice: "), "{cause}");
    assert!(cause.contains("missing field `invoice`"), "{cause}");
}

#[tokio::test]
async fn a_worker_without_handlers_says_how_to_register_one() {
    let worker = jobs_core::Worker::new(Memory::default().app.store());
    let refused = worker.run_until_idle().await.expect_err("it runs nothing").to_string();
    assert_eq!(refused, "the worker has no handlers: register one with .handle(…)");
}
