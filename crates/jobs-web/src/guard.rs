//! What is sent with every answer, and which posts are refused.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header, request::Parts},
    response::Response,
};

use crate::answer::Refused;

/// The script and the style sheet of this crate's, and nothing else. Not `no-referrer`: under that
/// browsers send `Origin: null` with a form of the page's own.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
    (header::VARY, "Cookie, Authorization"),
];

pub(crate) fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let kept = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(kept);
}

/// Refuses a post that another site's page makes in the user's browser.
pub(crate) fn same_site(parts: &Parts) -> Result<(), Refused> {
    let own = match text(&parts.headers, "sec-fetch-site") {
        Some(site) => site == "same-origin" || site == "none",
        None => match text(&parts.headers, "origin") {
            Some(origin) => {
                host(&parts.headers, &parts.uri).is_some_and(|host| is_of(origin, host))
            }
            // A browser sends one of them with every post.
            None => !parts.headers.contains_key("origin"),
        },
    };
    let words = "This came from another site's page. Do it from this one.";
    if own { Ok(()) } else { Err(Refused::new(StatusCode::FORBIDDEN, words)) }
}

fn is_of(origin: &str, host: &str) -> bool {
    let origin = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    uri.authority().map(|authority| authority.as_str()).or_else(|| text(headers, "host"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_in(headers: &[(&str, &str)]) -> bool {
        let mut request = axum::http::Request::post("/retry").header("host", "app.example:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        same_site(&request.body(()).unwrap().into_parts().0).is_ok()
    }

    #[test]
    fn only_the_pages_own_posts_are_let_in() {
        for good in [
            &[][..],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://app.example:8080")],
            // A proxy in between may have changed the host; the browser has not.
            &[("sec-fetch-site", "same-origin"), ("origin", "https://public.example")],
        ] {
            assert!(is_let_in(good), "{good:?}");
        }
        for bad in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "")],
            &[("sec-fetch-site", "cross-site"), ("origin", "https://app.example:8080")],
            &[("origin", "https://evil.example")],
            &[("origin", "https://app.example")],
            &[("origin", "https://app.example:8080.evil.example")],
            &[("origin", "null")],
            &[("origin", "")],
            &[("origin", "\u{e9}")],
        ] {
            assert!(!is_let_in(bad), "{bad:?}");
        }
    }
}
