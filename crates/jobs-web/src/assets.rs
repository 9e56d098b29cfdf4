//! The style sheet, the script and the icon, under names that change with their content.

use axum::{
    Router,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
};

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// FNV-1a: tells versions apart, and guards nothing.
const fn hash(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

pub(crate) fn style_path() -> String {
    format!("/assets/{:016x}.css", hash(STYLE))
}

pub(crate) fn script_path() -> String {
    format!("/assets/{:016x}.js", hash(SCRIPT))
}

pub(crate) fn icon_path() -> String {
    format!("/assets/{:016x}.svg", hash(ICON))
}

pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route(&style_path(), get(async || asset("text/css; charset=utf-8", STYLE)))
        .route(&script_path(), get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route(&icon_path(), get(async || asset("image/svg+xml", ICON)))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    let kind = HeaderValue::from_static(kind);
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, kept)], text).into_response()
}
