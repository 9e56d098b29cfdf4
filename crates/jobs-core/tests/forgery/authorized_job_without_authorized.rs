use jobs_core::{AuthorizedJob, Job};

fn main() {
    let _ = AuthorizedJob(Job::default());
}
