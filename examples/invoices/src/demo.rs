//! `demo`: requests and a worker in one process, traffic of three tenants, and what came of it.

use std::{future::Future, time::Duration};

use axum::{
    body::Bytes,
    http::{Request, StatusCode, header},
};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, time::Instant};

use crate::{
    AnyError,
    data::{Data, Report},
    mailer::{Mailer, call},
    routes::Overview,
    serve::{serve, told},
    store,
    worker::worker,
};

const TENANTS: [(&str, &str); 3] = [("ada", "acme"), ("eve", "globex"), ("ivy", "initech")];
const MONTH: &str = "2026-11";
/// Invoices that each tenant issues.
const ISSUED: usize = 5;
/// Lines of the file that acme imports.
const LINES: usize = 2000;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs it on the store at `url`.
///
/// # Errors
/// The store's, or it does not come to an end.
pub async fn run(url: &str, mailer: Mailer) -> Result<(), AnyError> {
    let store = store::open(url).await?;
    store.migrate().await?;
    let data = Data::new(store.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = Client(listener.local_addr()?.to_string());
    let (say, stop) = watch::channel(false);
    let serving = tokio::spawn(serve(listener, data.clone(), store.relay(), stop.clone()));
    let working = tokio::spawn(worker(data, mailer).run_until(told(stop)));
    let traffic = traffic(&client).await;
    say.send_replace(true);
    let ended = working.await??;
    serving.await??;
    traffic?;
    println!("all jobs are done: {} runs settled, {} left", ended.settled, ended.left);
    Ok(())
}

async fn traffic(client: &Client) -> Result<(), AnyError> {
    let mut before = Vec::new();
    for (user, tenant) in TENANTS {
        before.push(client.overview(user, tenant).await?);
    }
    for number in 1..=ISSUED {
        for (user, tenant) in TENANTS {
            let draft = json!({ "customer": "Hooli", "cents": number * 1000, "month": MONTH });
            client.push(user, &format!("/tenants/{tenant}/invoices"), draft).await?;
        }
    }
    let mut file = "customer,cents,month\n".to_owned();
    (0..LINES).for_each(|line| file.push_str(&format!("\"Pied, Piper\",{line},{MONTH}\n")));
    client.push("ada", "/tenants/acme/imports", Value::String(file)).await?;
    for ((user, tenant), before) in TENANTS.into_iter().zip(before) {
        let lines = if tenant == "acme" { LINES } else { 0 };
        let whole =
            Overview { invoices: before.invoices + ISSUED + lines, sent: before.sent + ISSUED };
        until(|| async { Ok((client.overview(user, tenant).await? == whole).then_some(())) })
            .await?;
        client.push(user, &format!("/tenants/{tenant}/reports"), json!({ "month": MONTH })).await?;
        let path = format!("/tenants/{tenant}/reports/{MONTH}");
        let report = until(|| async {
            let (status, body) = client.ask("GET", user, &path, Value::Null).await?;
            let report: Option<Report> = status.is_success().then(|| read(&body)).transpose()?;
            Ok(report.filter(|report| report.invoices == whole.invoices as u64))
        });
        let Report { invoices, sent, cents, .. } = report.await?;
        println!("{tenant}: {invoices} invoices, {sent} mailed, {cents} cents in {MONTH}");
    }
    let forged = json!({
        "customer": "Hooli", "cents": 1, "month": MONTH, "job": { "tenant": "globex" },
    });
    let (status, body) = client.ask("POST", "ada", "/tenants/acme/invoices", forged).await?;
    let said = String::from_utf8_lossy(&body);
    println!("ada of acme, for globex: {status}: {}", said.trim_end());
    Ok(())
}

/// Asks the server as a browser would.
struct Client(String);

impl Client {
    async fn ask(
        &self,
        method: &str,
        user: &str,
        path: &str,
        body: Value,
    ) -> Result<(StatusCode, Bytes), AnyError> {
        let (kind, body) = match body {
            Value::Null => ("text/plain", String::new()),
            Value::String(file) => ("text/csv", file),
            json => ("application/json", json.to_string()),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.0)
            .header(header::AUTHORIZATION, format!("Bearer {user}-token"))
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(Bytes::from(body)))?;
        call(&self.0, request).await
    }

    async fn push(&self, user: &str, path: &str, body: Value) -> Result<(), AnyError> {
        match self.ask("POST", user, path, body).await? {
            (StatusCode::ACCEPTED, _) => Ok(()),
            (status, body) => {
                Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into())
            }
        }
    }

    async fn overview(&self, user: &str, tenant: &str) -> Result<Overview, AnyError> {
        let path = format!("/tenants/{tenant}/invoices");
        read(&self.ask("GET", user, &path, Value::Null).await?.1)
    }
}

fn read<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, AnyError> {
    Ok(serde_json::from_slice(body)?)
}

/// Waits until it is there.
async fn until<T, F>(find: impl Fn() -> F) -> Result<T, AnyError>
where
    F: Future<Output = Result<Option<T>, AnyError>>,
{
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(found) = find().await? {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("the jobs were not done within {PATIENCE:?}").into())
}
