//! `demo`.

use crate::{AnyError, mailer::Mailer};

/// Runs it.
///
/// # Errors
/// Any.
pub async fn run(_url: &str, _mailer: Mailer) -> Result<(), AnyError> {
    Ok(())
}
