use jobs_core::{Grant, grant::Scope};

fn main() {
    let _ = Grant {
        subject: "mallory".to_owned(),
        on_behalf_of: None,
        action: "invoice.send".to_owned(),
        scope: Scope::Operator,
        payload_limit: 0,
    };
}
