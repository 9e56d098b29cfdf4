use jobs_core::AuthorizedJob;

fn redirect(job: &mut AuthorizedJob) {
    job.0.tenant = "globex".to_owned();
}

fn main() {}
