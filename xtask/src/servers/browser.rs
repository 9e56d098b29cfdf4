//! A browser for the tests of the queue page, and axe-core, which looks for what keeps people out of
//! it. Both are used and not shipped.

use std::{env, path::Path};

use jobs_servers::{BROWSER_PACKAGES, PrivateBrowser, install, npm_package};

use super::Ready;

/// A URL of a ChromeDriver.
const DRIVER: &str = "JOBS_TEST_WEBDRIVER_URL";
/// The file `axe.min.js`.
const AXE: &str = "JOBS_TEST_AXE";
/// The version that the page is held to.
const AXE_VERSION: &str = "4.14.1";

/// Where the developer names one, that one.
pub fn ready(may_install: bool) -> Result<Ready, String> {
    let mut ready = Ready::default();
    let driver = match env::var(DRIVER) {
        Ok(url) => url,
        Err(_) => {
            if PrivateBrowser::find().is_none() {
                if !may_install {
                    return Err(format!(
                        "chromium and chromedriver not found: install them (--install does), or name a \
                         ChromeDriver in {DRIVER}"
                    ));
                }
                install(BROWSER_PACKAGES)?;
            }
            let private = PrivateBrowser::start()?;
            let url = private.url();
            ready._servers.push(Box::new(private));
            url
        }
    };
    let axe = match env::var(AXE) {
        Ok(file) => file,
        Err(_) => {
            let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/axe");
            let package = npm_package("axe-core", AXE_VERSION, &target).map_err(|why| {
                format!("{why}; install npm, or name the file axe.min.js of axe-core in {AXE}")
            })?;
            package.join("axe.min.js").display().to_string()
        }
    };
    ready.environment = vec![(DRIVER, driver), (AXE, axe)];
    Ok(ready)
}
