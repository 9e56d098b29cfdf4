//! The mail service: an HTTP address that takes invoices, or without one the log.

use std::{io, str::FromStr};

use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use jobs_core::JobId;
use tokio::net::TcpStream;

use crate::{AnyError, data::Invoice};

/// Mails invoices.
#[derive(Clone, Debug, Default)]
pub struct Mailer(Option<Service>);

/// A mail service's address, `http://host:port/path`.
#[derive(Clone, Debug)]
pub struct Service {
    authority: String,
    path: String,
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = url::Url::parse(text).map_err(|error| error.to_string())?;
        match (url.scheme(), url.host_str()) {
            ("http", Some(host)) => {
                let port = url.port_or_known_default().unwrap_or(80);
                Ok(Self { authority: format!("{host}:{port}"), path: url.path().to_owned() })
            }
            _ => Err("write http://host:port/path".to_owned()),
        }
    }
}

impl Mailer {
    /// By this service, or into the log.
    pub fn new(service: Option<Service>) -> Self {
        Self(service)
    }

    /// Mails an invoice. A job may run twice and its customer wants one mail, so the service is told
    /// the job's id, the same each time, as the key to know a repetition by.
    ///
    /// # Errors
    /// The service is away, or takes it not.
    pub async fn send(&self, tenant: &str, invoice: &Invoice, job: JobId) -> Result<(), AnyError> {
        let Some(service) = &self.0 else {
            tracing::info!(tenant, customer = invoice.customer, cents = invoice.cents, "mailed");
            return Ok(());
        };
        let request = Request::post(&service.path)
            .header(header::HOST, &service.authority)
            .header(header::USER_AGENT, format!("invoices/{}", std::process::id()))
            .header("idempotency-key", format!("{tenant}/{job}"))
            .body(Full::new(Bytes::from(serde_json::to_vec(invoice)?)))?;
        let (status, _) = call(&service.authority, request).await?;
        if status.is_success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the mail service answered {status}")).into())
    }
}

/// One request on a connection of its own.
///
/// # Errors
/// Nobody is there, or it answers no HTTP.
pub async fn call(
    authority: &str,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), AnyError> {
    let stream = TcpStream::connect(authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
    };
    // Both in this future, so that dropping it closes the connection.
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => Ok(answer?),
        ended = connection => {
            ended?;
            Ok(exchange.await?)
        }
    }
}
