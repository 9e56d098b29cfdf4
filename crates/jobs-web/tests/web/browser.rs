//! A real browser: headless Chromium by its ChromeDriver.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use axum::{Router, extract::Request, http::HeaderValue, middleware::map_request};
use fantoccini::{
    Client, ClientBuilder, Locator, elements::Element, wd::WebDriverCompatibleCommand,
};
use jobs_core::Admin;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::app::{BASE, Who, app};

/// Of a ChromeDriver.
pub const DRIVER: &str = "JOBS_TEST_WEBDRIVER_URL";
/// The file `axe.min.js`.
pub const AXE: &str = "JOBS_TEST_AXE";
/// No page takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why it cannot be had.
pub fn missing() -> Option<String> {
    let unset = [DRIVER, AXE].into_iter().find(|name| std::env::var_os(name).is_none())?;
    Some(format!("set {unset}, or `cargo xtask test --install`"))
}

/// The application on a loopback port, everybody in it being `who`.
pub async fn serve(store: Arc<dyn Admin>, who: &Who) -> String {
    let who = HeaderValue::from_str(&who.header()).expect("text");
    let known = move |mut request: Request| {
        request.headers_mut().insert("x-who", who.clone());
        async { request }
    };
    let app: Router = app(store).layer(map_request(known));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("a port");
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{at}{BASE}")
}

/// One browser with nothing in it.
pub struct Browser {
    pub client: Client,
    base: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub async fn open(base: &str, with_script: bool) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let folder = format!("--user-data-dir={}", profile.path().display());
        let script = if with_script { 1 } else { 2 };
        let wishes = json!({
            "goog:chromeOptions": {
                "args": [
                    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync",
                    "--force-device-scale-factor=1", folder,
                ],
                "prefs": { "profile.managed_default_content_settings.javascript": script },
            },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let connector = hyper_util::client::legacy::connect::HttpConnector::new();
        let mut builder = ClientBuilder::new(connector);
        builder.capabilities(wishes.as_object().expect("an object").clone());
        let driver = std::env::var(DRIVER).expect("the runner asked for it");
        let client = builder.connect(&driver).await.expect("a browser starts");
        Self { client, base: base.to_owned(), _profile: profile }
    }

    /// The first page is nested without a slash at the end.
    pub async fn goto(&self, path: &str) {
        let first = path.strip_prefix('/').filter(|rest| rest.is_empty() || rest.starts_with('?'));
        let path = first.unwrap_or(path);
        self.client.goto(&format!("{}{path}", self.base)).await.expect("it loads");
    }

    pub async fn find(&self, css: &str) -> Element {
        let wait = self.client.wait().at_most(PATIENCE);
        let found = wait.for_element(Locator::Css(css)).await;
        found.unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    pub async fn click(&self, css: &str) {
        self.find(css).await.click().await.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Types where the focus is.
    pub async fn keys(&self, keys: &str) {
        let here = self.client.active_element().await.expect("a page");
        here.send_keys(keys).await.expect("it takes keys");
    }

    pub async fn run(&self, script: &str) -> Value {
        self.client
            .execute(script, Vec::new())
            .await
            .unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Waits until this script answers so.
    pub async fn until(&self, script: &str, is: Value) {
        let start = std::time::Instant::now();
        loop {
            let now = self.client.execute(script, Vec::new()).await;
            if now.as_ref().is_ok_and(|now| *now == is) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{script} is {now:?} and not {is}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What ChromeDriver has beyond WebDriver.
    async fn chrome(&self, path: &'static str, body: Value) -> Value {
        self.client.issue_cmd(Chrome { path, body }).await.expect("ChromeDriver answers")
    }

    /// Dark or light, so many pixels wide, and as high as the page then is.
    pub async fn dress(&self, scheme: &str, width: u32) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let media =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.chrome("goog/cdp/execute", media).await;
        self.size(width, 600).await;
        let height = self.run("return document.documentElement.scrollHeight").await;
        self.size(width, height.as_u64().expect("a number")).await;
    }

    async fn size(&self, width: u32, height: u64) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let size = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        self.chrome("goog/cdp/execute", size).await;
    }

    /// All of the page, below the build.
    pub async fn picture(&self, name: &str) {
        let png = self.client.screenshot().await.expect("a picture");
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{name}.png")), png).expect("it is written");
    }

    /// What axe-core finds serious or critical.
    pub async fn barriers(&self) -> Vec<String> {
        let axe = std::env::var(AXE).expect("the runner asked for it");
        let axe = std::fs::read_to_string(&axe).unwrap_or_else(|error| panic!("{axe}: {error}"));
        self.client.execute(&axe, Vec::new()).await.expect("axe-core loads");
        let run =
            "const done = arguments[0]; axe.run(document).then((found) => done(found.violations
            .filter((one) => ['serious', 'critical'].includes(one.impact))
            .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`)))";
        let found = self.client.execute_async(run, Vec::new()).await.expect("axe-core runs");
        serde_json::from_value(found).expect("a list")
    }

    /// Nothing was said on the console, and nobody else was asked for anything.
    pub async fn close(self) {
        let console = self.chrome("se/log", json!({ "type": "browser" })).await;
        assert_eq!(console, json!([]), "the console");
        let events = self.chrome("se/log", json!({ "type": "performance" })).await;
        let mut asked = BTreeSet::new();
        for event in events.as_array().expect("a list") {
            let event: Value =
                serde_json::from_str(event["message"].as_str().expect("text")).expect("JSON");
            let (event, what) = (&event["message"], &event["message"]["method"]);
            if what == "Network.requestWillBeSent" {
                asked.insert(event["params"]["request"]["url"].as_str().expect("a URL").to_owned());
            }
        }
        assert!(asked.iter().any(|url| url.starts_with(&self.base)), "{asked:?}");
        let host = self.base.trim_end_matches(BASE);
        // What the browser's own first page has is inside of it, and asks nobody.
        let inside = |url: &str| url.starts_with("chrome://") || url.starts_with("data:");
        let others: Vec<_> =
            asked.iter().filter(|url| !url.starts_with(host) && !inside(url)).collect();
        assert!(others.is_empty(), "{others:?}");
        self.client.close().await.expect("it closes");
    }
}

#[derive(Debug)]
struct Chrome {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Chrome {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (axum::http::Method, Option<String>) {
        (axum::http::Method::POST, Some(self.body.to_string()))
    }
}
