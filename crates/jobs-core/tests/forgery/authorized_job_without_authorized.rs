use jobs_core::{AuthorizedJob, Job};

fn main() {
    let _ = AuthorizedJob(std::sync::Arc::new(Job::default()));
}
